#include "comm/rendezvous/launcher_store.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "comm/membership/hub.h"
#include "comm/rendezvous/pmi1.h"
#include "comm/rendezvous/pmix.h"
#include "core/mutex.h"

namespace tutti {
namespace {

constexpr double kGoodbyeSeconds = 2;
constexpr double kQuestionSeconds = 60;

class PmixStore : public LauncherStore {
 public:
  Status open(const std::string& launcher) {
    const Status status = session_.open();
    if (!status.ok())
      return fail(status.code(), "{}'s ranks meet through PMIx, which fails: {}", launcher, status.text());
    return session_.ranks(&ranks_);
  }
  int rank() const override { return static_cast<int>(session_.rank()); }
  int ranks() const override { return ranks_; }
  Status publish(const std::string& key, const std::string& value, Deadline) override {
    return session_.publish(key, value);
  }
  Status fetch(const std::string& key, Deadline deadline, std::string* value) override {
    return session_.fetch(key, deadline, value);
  }

 private:
  PmixSession session_;
  int ranks_ = 0;
};

/// The process's connection to its PMI-1 server, which Hub::of_process() holds. It lives as long as the process,
/// because there is one PMI_FD per process, and a server that sees it closed, or gets a second goodbye, ends the job.
struct PmiConnection {
  Mutex mutex;
  ConditionVariable given_back;
  bool taken TUTTI_GUARDED_BY(mutex) = false;  // by a join, which alone uses what follows
  std::unique_ptr<PmiClient> client;
  std::string place;  // names what it is connected to
  pid_t owner = 0;

  ~PmiConnection() {
    // A forked child's copy says nothing.
    if (client && owner == ::getpid()) (void)client->finalize(Deadline::in(kGoodbyeSeconds));
  }
};

/// Whether MPI runs in this process, because it then uses PMI_FD itself. MPICH and Open MPI both have these functions
/// with this signature.
bool mpi_runs_here() {
  using Question = int (*)(int*);
  const auto initialized = reinterpret_cast<Question>(::dlsym(RTLD_DEFAULT, "MPI_Initialized"));
  int yes = 0;
  return initialized != nullptr && initialized(&yes) == 0 && yes != 0;
}

Status connect_client(const ProcessLaunch& launch, Deadline deadline, std::unique_ptr<PmiClient>* client) {
  if (mpi_runs_here())
    return fail(Code::kInvalidUsage,
                "MPI runs in this process and {} serves it over the same connection ({}): join with tuttiCommInitMPI "
                "of tutti_mpi.h, or call env:// before MPI_Init",
                launch.info.launcher, launch.pmi_port.empty() ? "PMI_FD" : "PMI_PORT");
  Descriptor socket;
  bool borrowed = false;
  TUTTI_TRY(connect_pmi(launch, deadline, &socket, &borrowed));
  auto made = std::make_unique<PmiClient>(launch.info.launcher, std::move(socket), borrowed);
  TUTTI_TRY(made->start(launch.pmi_identity, deadline));
  *client = std::move(made);
  return {};
}

class PmiStore : public LauncherStore {
 public:
  PmiStore() = default;
  ~PmiStore() override {
    if (!has_turn_) return;
    const MutexLock lock(connection_->mutex);
    connection_->taken = false;
    connection_->given_back.notify_one();
  }
  PmiStore(const PmiStore&) = delete;
  PmiStore& operator=(const PmiStore&) = delete;
  Status open(const ProcessLaunch& launch, Deadline deadline) {
    TUTTI_TRY(Hub::of_process(&connection_));
    PmiConnection& connection = *connection_;
    {
      MutexLock lock(connection.mutex);
      const Clock::time_point end = Clock::now() + deadline.left(std::chrono::hours(1));
      while (connection.taken && connection.given_back.wait_until(lock, end)) continue;
      has_turn_ = !std::exchange(connection.taken, true);
    }
    if (!has_turn_)
      return fail(Code::kTimeout, "another join by env:// of this process did not end before the join's deadline");
    const std::string place = fmt::format("{}/{}", launch.pmi_descriptor, launch.pmi_port);
    if (!connection.client || connection.owner != ::getpid() || connection.place != place) {
      connection.client.reset();
      TUTTI_TRY(connect_client(launch, deadline, &connection.client));
      connection.owner = ::getpid();
      connection.place = place;
    }
    client_ = connection.client.get();
    rank_ = client_->ranks() > 0 ? client_->rank() : launch.info.rank.value;
    ranks_ = client_->ranks() > 0 ? client_->ranks() : launch.info.ranks;
    return {};
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  Status publish(const std::string& key, const std::string& value, Deadline deadline) override {
    TUTTI_TRY(client_->put(key, value, deadline));
    return meet(deadline);
  }
  Status fetch(const std::string& key, Deadline deadline, std::string* value) override {
    TUTTI_TRY(meet(deadline));
    return client_->get(key, deadline, value);
  }

 private:
  Status meet(Deadline deadline) {
    const Status met = client_->barrier(deadline);
    if (met.code() != Code::kTimeout) return met;
    return fail(Code::kTimeout, "{}; its {} ranks join together, and not all of them do", met.text(), ranks_);
  }

  PmiConnection* connection_ = nullptr;
  bool has_turn_ = false;
  PmiClient* client_ = nullptr;
  int rank_ = 0;
  int ranks_ = 0;
};

}  // namespace

Status open_store(const ProcessLaunch& launch, Deadline deadline, std::unique_ptr<LauncherStore>* store) {
  if (launch.method == RendezvousMethod::kPmix) {
    auto made = std::make_unique<PmixStore>();
    TUTTI_TRY(made->open(launch.info.launcher));
    *store = std::move(made);
    return {};
  }
  auto made = std::make_unique<PmiStore>();
  TUTTI_TRY(made->open(launch, deadline));
  *store = std::move(made);
  return {};
}

Status ask_launcher(ProcessLaunch* launch) {
  if (launch->info.ranks > 0) return {};
  std::unique_ptr<LauncherStore> store;
  TUTTI_TRY(open_store(*launch, Deadline::in(kQuestionSeconds), &store));
  launch->info.ranks = store->ranks();
  launch->info.rank = Rank{store->rank()};
  if (launch->info.ranks == 1) launch->method = RendezvousMethod::kAlone;
  return {};
}

Status detect_launcher(LaunchInfo* info) {
  Settings settings;
  TUTTI_TRY(read_settings(&settings));
  ProcessLaunch launch;
  TUTTI_TRY(read_launch(settings, &launch));
  TUTTI_TRY(ask_launcher(&launch));
  *info = launch.info;
  return {};
}

}  // namespace tutti
