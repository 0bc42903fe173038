// Open MPI or MPICH: compiled once with each one's headers.
#include "race/mpi_call.h"

#include <cstdlib>

#include "player.h"

namespace tutti::peers {
namespace {

class MpiPlayer final : public Player {
 public:
  std::string name() const override { return race::mpi_name(); }
  bool run(const Operation& operation, std::string* text) override {
    const int code = race::call_mpi(operation.what, operation.in, operation.out, operation.count, operation.root);
    if (code != MPI_SUCCESS) *text = "MPI error " + std::to_string(code);
    return code == MPI_SUCCESS;
  }
  void leave() override { MPI_Finalize(); }
};

}  // namespace

std::unique_ptr<Player> make_player(const Seat& seat, std::string* text) {
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) return *text = "MPI_Init failed", nullptr;
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank == seat.rank() && ranks == seat.ranks()) return std::make_unique<MpiPlayer>();
  *text = "the launcher started rank " + std::to_string(rank) + " of " + std::to_string(ranks);
  return nullptr;
}

bool is_bound() { return true; }
int launched_rank() {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (const char* const rank = std::getenv(name)) return std::atoi(rank);
  }
  return -1;
}

}  // namespace tutti::peers
