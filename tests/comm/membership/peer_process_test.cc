// Covers comm/membership/peer_process.cc.
// The connection to a peer process: who may take its place.
#include "comm/membership/peer_process.h"

#include "comm/messages/unique_id.h"
#include "support/joining_processes.h"
#include "support/knocker.h"

namespace tutti {
namespace {

using test::SharedPage;

/// Of the process of rank 1, where rank 0 can read it.
struct Known {
  ProcessId process;
};

Status tell_lies_as(const ProcessId& other, const IdBytes& bytes) {
  UniqueId id;
  TUTTI_TRY(UniqueId::decode(bytes, &id));
  std::shared_ptr<Hub> hub;
  TUTTI_TRY(Hub::acquire(Settings{}, &hub));
  Key key;
  TUTTI_TRY(hmac_sha256(id.secret, {bytes_of("tutti member"), hub->process()}, &key));
  test::Knocker knocker(hub->port());
  TUTTI_TRY(test::expect(knocker.pass(Role::kControl, id.nonce, key), "the knocker is turned away"));
  knocker.say(MessageType::kIntroduce, encode(IntroduceMessage{other}));
  knocker.say(MessageType::kCause, encode(FailureCause{Code::kRemoteError, Rank{1}, Rank{1}, "a lie"}));
  return test::expect(knocker.is_closed(), "the knocker is listened to");
}

// Who has the secret can say what it likes in its own name. It does not push out a process of this host that lives.
TEST(PeerProcess, OfThisHostIsNotReplacedByWhoComesOverTheNetwork) {
  const test::SharedMemory<Known> known;
  test::JoiningProcesses processes;
  processes.start_all(2, [&known](int rank, SharedPage& page) {
    IdBytes id;
    TUTTI_TRY(test::obtain_id(rank, page, &id));
    JoinRequest request = test::request_for(rank, 2, id);
    request.settings.transport = TransportKind::kTcp;  // or nobody may come over TCP
    JoinResult joined;
    TUTTI_TRY(join(request, &joined));
    if (rank == 1) {
      std::shared_ptr<Hub> hub;
      TUTTI_TRY(Hub::acquire(Settings{}, &hub));
      known->process = hub->process();
      page.mark(0);
      page.wait_for_mark(1, 1);
      return joined.membership->say_goodbye(0), Status();
    }
    page.wait_for_mark(0, 1);
    const Status told = tell_lies_as(known->process, id);
    page.mark(1);
    TUTTI_TRY(told);
    const bool left = test::comes_true([&] { return joined.membership->liveness(Rank{1}) == Liveness::kLeft; });
    TUTTI_TRY(test::expect(left, "the goodbye over the connection that was there is not heard"));
    TUTTI_TRY(test::expect(joined.membership->cause().code == Code::kOk, "the lie is believed"));
    return joined.membership->say_goodbye(0), Status();
  });
  processes.wait();
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(processes.page().code(rank), Code::kOk) << processes.page().text(rank);
}

}  // namespace
}  // namespace tutti
