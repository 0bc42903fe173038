#include "joint_work.h"

namespace tutti_torch {
namespace {

struct Members : Carrier {
  explicit Members(std::vector<WorkPointer> works) : works(std::move(works)), open(this->works.size()) {}
  void help(TuttiWork& joint) override {
    for (const WorkPointer& work : works) {
      try {
        work->wait();
      } catch (const std::exception&) {  // the joint work reports it
      }
    }
    joint.wait_idle(std::chrono::milliseconds(0));
  }
  void give_up(TuttiWork&) override {}

  std::vector<WorkPointer> works;
  std::atomic<std::size_t> open;  // pairs with itself: the last member to end sees the others' ends
};

}  // namespace

WorkPointer join_works(int rank, std::vector<WorkPointer> works) {
  TuttiWork::Description description;
  description.rank = rank;
  description.type = c10d::OpType::COALESCED;
  for (const WorkPointer& work : works) {
    const std::vector<at::Tensor>& outputs = work->outputs();
    description.outputs.insert(description.outputs.end(), outputs.begin(), outputs.end());
  }
  const auto members = std::make_shared<Members>(std::move(works));
  const WorkPointer joint = c10::make_intrusive<TuttiWork>(std::move(description), members);
  for (const WorkPointer& member : members->works) joint->callbacks_aside |= member->callbacks_aside;
  if (members->works.empty()) joint->complete(nullptr);
  for (const WorkPointer& member : members->works) {
    member->observe([members, joint] {
      if (members->open.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      std::exception_ptr error;
      for (const WorkPointer& work : members->works) {
        if (!error) error = work->exception();
      }
      for (const WorkPointer& work : members->works) joint->add_ends(work->ends());
      joint->complete(error);
    });
  }
  return joint;
}

}  // namespace tutti_torch
