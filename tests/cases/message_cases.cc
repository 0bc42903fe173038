// Sends and receives.
#include <deque>
#include <vector>

#include "cases/area.h"
#include "cases/collective_cases.h"

namespace tutti::cases {
namespace {

constexpr int kAnyTag = 77;

struct Letter {
  tuttiDataType_t type = tuttiUint8;
  std::size_t count = 0;
  int tag = 0;
  int stream = 0;  ///< which bits it carries; both sides know
  std::size_t shift = 0;
};

/// The messages of a phase: their memory until it is over, and what must be in it then.
class Mail {
 public:
  explicit Mail(Ledger* ledger) : ledger_(ledger) {}

  void start() { ledger_->accept(tuttiGroupStart(), "group start"); }
  void end() { ledger_->accept(tuttiGroupEnd(), "group end"); }

  void send(int to, const Letter& letter) {
    Item& item = add(letter);
    fill(letter, &item.image);
    std::copy(item.image.begin(), item.image.end(), item.area.data());
    const void* data = letter.count == 0 && letter.stream % 2 == 0 ? nullptr : item.area.data();
    accept(letter.tag == 0 ? tuttiSend(data, letter.count, letter.type, to, ledger_->comm(), nullptr)
                           : tuttiSendTag(data, letter.count, letter.type, to, letter.tag, ledger_->comm(), nullptr),
           "send to", to, letter);
  }

  void receive(int from, const Letter& letter) {
    Item& item = add(letter);
    fill(letter, &item.image);
    accept(letter.tag == 0 ? tuttiRecv(item.area.data(), letter.count, letter.type, from, ledger_->comm(), nullptr)
                           : tuttiRecvTag(item.area.data(), letter.count, letter.type, from, letter.tag, nullptr,
                                          ledger_->comm(), nullptr),
           "receive from", from, letter);
  }

  /// What arrives carries the bits of letter.stream + the source.
  void receive_from_any(const Letter& letter) {
    Item& item = add(letter);
    item.from_any = true;
    accept(tuttiRecvTag(item.area.data(), letter.count, letter.type, TUTTI_ANY_SOURCE, letter.tag, &item.source,
                        ledger_->comm(), nullptr),
           "receive from any, not from", -1, letter);
  }

  /// The phase is over: looks at all of it. Sources of messages from any are each rank but this one, once.
  void check(const char* phase) {
    if (!ledger_->usable()) return;
    std::vector<int> seen(static_cast<std::size_t>(ledger_->ranks()), 0);
    for (Item& item : items_) {
      bool right = true;
      if (item.from_any) {
        right = item.source >= 0 && item.source < ledger_->ranks() && item.source != ledger_->rank() &&
                ++seen[static_cast<std::size_t>(item.source)] == 1;
        item.letter.stream += item.source;
        if (right) fill(item.letter, &item.image);
      }
      ledger_->note(right && item.area.is(item.image), text("a message with", item.letter.tag, item.letter) + phase);
    }
    items_.clear();
  }

 private:
  struct Item {
    Letter letter;
    Area area;
    Bytes image;
    bool from_any = false;
    int source = -2;
  };

  static std::string text(const char* what, int number, const Letter& letter) {
    return std::string(what) + " " + std::to_string(number) + ", tag " + std::to_string(letter.tag) + ", " +
           std::to_string(letter.count) + " " + name_of(letter.type) + ", ";
  }
  void accept(tuttiResult_t code, const char* what, int peer, const Letter& letter) {
    if (code != tuttiSuccess) ledger_->accept(code, text(what, peer, letter));
  }
  static void fill(const Letter& letter, Bytes* image) {
    put(image->data(), payload(letter.type, letter.stream), 0, image->size());
  }
  Item& add(const Letter& letter) {
    const std::size_t bytes = letter.count * width_of(letter.type);
    return items_.emplace_back(Item{letter, Area(bytes, letter.shift), Bytes(bytes, kUnwritten)});
  }

  Ledger* ledger_;
  std::deque<Item> items_;
};

/// To the next rank, from the one before; with one rank to itself.
void run_ring(Ledger* ledger, const Letter& letter) {
  Mail mail(ledger);
  Letter mine = letter, theirs = letter;
  mine.stream = ledger->rank();
  theirs.stream = ledger->before();
  mail.start();
  mail.send(ledger->next(), mine);
  mail.receive(ledger->before(), theirs);
  mail.end();
  mail.check("in a ring");
}

/// Outside groups: a message to oneself never waits for its receive; neighbours take turns.
void run_alone(Ledger* ledger, const Letter& letter) {
  Mail mail(ledger);
  mail.send(ledger->rank(), letter);
  mail.receive(ledger->rank(), letter);
  const int partner = ledger->rank() ^ 1;
  if (partner < ledger->ranks()) {
    const bool first = ledger->rank() < partner;
    if (first) mail.send(partner, letter);
    mail.receive(partner, letter);
    if (!first) mail.send(partner, letter);
  }
  mail.check("outside groups");
}

/// Three messages a pair and direction, in one group: in order for a pair, mixed between pairs, sends before receives
/// and after.
void run_mixed(Ledger* ledger, std::uint64_t seed, std::size_t largest) {
  constexpr int kEach = 3;
  const int ranks = ledger->ranks();
  const auto letter = [&](int from, int to, int k) {
    const int stream = (from * ranks + to) * kEach + k;
    return Letter{tuttiUint16, static_cast<std::size_t>(dice(seed, 3, static_cast<std::uint64_t>(stream)) % largest), 0,
                  stream, static_cast<std::size_t>(stream % 7)};
  };
  std::vector<int> posted(static_cast<std::size_t>(2 * ranks), 0);
  Mail mail(ledger);
  mail.start();
  std::uint64_t die = static_cast<std::uint64_t>(ledger->rank()) * 1000003;
  for (int left = 2 * ranks * kEach; left > 0;) {
    const auto choice = static_cast<int>(dice(seed, 4, die++) % static_cast<std::uint64_t>(2 * ranks));
    int& k = posted[static_cast<std::size_t>(choice)];
    if (k == kEach) continue;
    const int peer = choice / 2;
    if (choice % 2 == 0) mail.send(peer, letter(ledger->rank(), peer, k));
    if (choice % 2 == 1) mail.receive(peer, letter(peer, ledger->rank(), k));
    ++k;
    --left;
  }
  mail.end();
  mail.check("of many in a group");
}

/// Tags are received in another order than sent: in a group, and by single receives that leave messages waiting.
void run_tags(Ledger* ledger, std::size_t count) {
  const auto letter = [&](int from, int tag) { return Letter{tuttiInt32, count, tag, from * 256 + (tag & 0xff), 1}; };
  Mail mail(ledger);
  mail.start();
  for (const int tag : {1, 2, -3, 1 << 30}) mail.send(ledger->next(), letter(ledger->rank(), tag));
  for (const int tag : {1 << 30, -3, 2, 1}) mail.receive(ledger->before(), letter(ledger->before(), tag));
  mail.end();
  mail.check("by tags in a group");
  if (ledger->ranks() < 2 || !ledger->usable()) return;
  if (ledger->rank() == 0) {
    mail.start();
    for (const int tag : {1, 2, 3}) mail.send(1, letter(0, tag));
    mail.end();
  } else if (ledger->rank() == 1) {
    for (const int tag : {3, 1, 2}) mail.receive(0, letter(0, tag));
  }
  mail.check("by tags, one by one");
}

/// Each rank in turn hears from all others, in the order in which they come; then all from all in one group.
void run_any(Ledger* ledger, std::size_t count) {
  const Letter letter{tuttiUint8, count, kAnyTag, 200, 3};
  Letter mine = letter;
  mine.stream += ledger->rank();
  Mail mail(ledger);
  for (int hub = 0; hub < ledger->ranks() && ledger->usable(); ++hub) {
    if (hub != ledger->rank()) mail.send(hub, mine);
    for (int i = 1; i < ledger->ranks() && hub == ledger->rank(); ++i) mail.receive_from_any(letter);
    mail.check("from any");
    ledger->accept(tuttiBarrier(ledger->comm(), nullptr), "barrier");  // else the next hub's letters mix with these
  }
  if (!ledger->usable()) return;
  mail.start();
  for (int peer = 0; peer < ledger->ranks(); ++peer) {
    if (peer == ledger->rank()) continue;
    mail.receive_from_any(letter);
    mail.send(peer, mine);
  }
  mail.end();
  mail.check("from any, in a group");
  if (ledger->usable()) ledger->accept(tuttiBarrier(ledger->comm(), nullptr), "barrier");  // as above
}

}  // namespace

Outcome run_message_cases(tuttiComm_t comm, int rank, int ranks, Effort effort) {
  Ledger ledger(comm, rank, ranks);
  std::vector<std::size_t> counts{0, 1, 2, 7, 127, 4099, 70001};
  if (effort == Effort::kLarge) counts.push_back(300007);
  for (const std::size_t count : counts) {
    for (const tuttiDataType_t type : {tuttiUint8, tuttiFloat32, tuttiFloat64}) {
      if (effort == Effort::kLeast && type != tuttiFloat32) continue;
      for (const int tag : {0, 5}) {
        if (ledger.usable()) run_ring(&ledger, {type, count, tag, 0, tag == 0 ? std::size_t{0} : std::size_t{3}});
        if (ledger.usable()) run_alone(&ledger, {type, count, tag, 9, 1});
      }
    }
    if (ledger.usable()) run_tags(&ledger, count);
    if (ledger.usable()) run_any(&ledger, count);
  }
  for (std::uint64_t seed = 0; seed < (effort == Effort::kLeast ? 4u : 10u) && ledger.usable(); ++seed)
    run_mixed(&ledger, seed, seed % 2 == 0 ? 50 : 30000);
  return ledger.outcome();
}

}  // namespace tutti::cases
