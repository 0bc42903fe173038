// The operations that all ranks make together.
#include "calls.h"

namespace tutti_torch {
namespace {

/// All-gathers of the operands in pairs: input, output.
void gather_pairs(Endpoint& endpoint, const char* operation, std::vector<Operand>& o) {
  in_group(endpoint, operation, o.size() / 2, [&](std::size_t i, tuttiComm_t comm) {
    const Element element = moved(o[2 * i].dtype());
    return tuttiAllGather(o[2 * i].data(), o[2 * i + 1].data(), o[2 * i].count(element), element.type, comm,
                          endpoint.stream());
  });
}

}  // namespace

ProcessGroupTutti::WorkResult ProcessGroupTutti::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors, "broadcast");
  check_root(options.rootRank, "broadcast");
  const int root = static_cast<int>(options.rootRank);
  const Element element = moved(tensor.scalar_type());
  return launch({OpType::BROADCAST, "tutti:broadcast", options.timeout, TUTTI_BLOCKING(options)},
                {Operand(tensor, root == rank_ ? Use::kBoth : Use::kWrite)},
                [element, root](Endpoint& endpoint, std::vector<Operand>& o) {
                  endpoint.run("broadcast", [&](tuttiComm_t comm) {
                    return tuttiBroadcast(o[0].data(), o[0].data(), o[0].count(element), element.type, root, comm,
                                          endpoint.stream());
                  });
                });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(tensors, "all_reduce");
  if (tensor.is_sparse()) return allreduce_sparse(tensors, options);
  const Element element = reduced(tensor.scalar_type(), options.reduceOp, "all_reduce");
  return launch({OpType::ALLREDUCE, "tutti:all_reduce", options.timeout, TUTTI_BLOCKING(options)},
                {Operand(tensor, Use::kBoth)},
                [element, op = options.reduceOp](Endpoint& endpoint, std::vector<Operand>& o) {
                  const Reduction reduction(op, element.type, endpoint);
                  endpoint.run("all_reduce", [&](tuttiComm_t comm) {
                    return tuttiAllReduce(o[0].data(), o[0].data(), o[0].count(element), element.type, reduction.get(),
                                          comm, endpoint.stream());
                  });
                });
}

void ProcessGroupTutti::allreduce_wire(const at::Tensor& tensor, const c10d::ReduceOp& op, at::ScalarType wire) {
  const Element element = reduced(tensor.scalar_type(), op, "all_reduce");
  const tuttiDataType_t carried = moved(wire).type;
  const Launch kind{OpType::ALLREDUCE, "tutti:all_reduce", c10d::kUnsetTimeout, true};
  const WorkResult work =
      launch(kind, {Operand(tensor, Use::kBoth)}, [element, carried, op](Endpoint& endpoint, std::vector<Operand>& o) {
        const Reduction reduction(op, element.type, endpoint);
        endpoint.run("all_reduce", [&](tuttiComm_t comm) {
          return tuttiAllReduceWire(o[0].data(), o[0].data(), o[0].count(element), element.type, reduction.get(),
                                    carried, comm, endpoint.stream());
        });
      });
  work->wait();
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::allreduce_coalesced(Tensors& tensors,
                                                                     const c10d::AllreduceCoalescedOptions& options) {
  std::vector<Operand> operands;
  std::vector<Element> elements;
  for (const at::Tensor& tensor : tensors) {
    elements.push_back(reduced(tensor.scalar_type(), options.reduceOp, "all_reduce_coalesced"));
    check_count(elements.back().type, elements.front().type, "all_reduce_coalesced", "the type");
    operands.emplace_back(tensor, Use::kBoth);
  }
  if (tensors.empty()) C10_THROW_ERROR(ValueError, "tutti: all_reduce_coalesced: no tensors");
  return launch({OpType::ALLREDUCE_COALESCED, "tutti:all_reduce", options.timeout, TUTTI_BLOCKING(options)},
                std::move(operands), [elements, op = options.reduceOp](Endpoint& endpoint, std::vector<Operand>& o) {
                  const Reduction reduction(op, elements[0].type, endpoint);
                  in_group(endpoint, "all_reduce_coalesced", o.size(), [&](std::size_t i, tuttiComm_t comm) {
                    return tuttiAllReduce(o[i].data(), o[i].data(), o[i].count(elements[i]), elements[i].type,
                                          reduction.get(), comm, endpoint.stream());
                  });
                });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only(tensors, "reduce");
  check_root(options.rootRank, "reduce");
  const int root = static_cast<int>(options.rootRank);
  const Element element = reduced(tensor.scalar_type(), options.reduceOp, "reduce");
  return launch({OpType::REDUCE, "tutti:reduce", options.timeout, TUTTI_BLOCKING(options)},
                {Operand(tensor, root == rank_ ? Use::kBoth : Use::kRead)},
                [element, root, op = options.reduceOp](Endpoint& endpoint, std::vector<Operand>& o) {
                  const Reduction reduction(op, element.type, endpoint);
                  endpoint.run("reduce", [&](tuttiComm_t comm) {
                    return tuttiReduce(o[0].data(), o[0].data(), o[0].count(element), element.type, reduction.get(),
                                       root, comm, endpoint.stream());
                  });
                });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::allgather(Lists& outputs, Tensors& inputs,
                                                           const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(inputs, "all_gather");
  if (outputs.size() != 1) C10_THROW_ERROR(ValueError, "tutti: all_gather: takes one list of outputs");
  check_list(outputs[0], "all_gather");
  check_count(outputs[0][rank_].numel(), input.numel(), "all_gather", "this rank's output");
  const Element element = moved(input.scalar_type());
  const bool even = of_one_size(outputs[0]);
  return launch({OpType::ALLGATHER, "tutti:all_gather", options.timeout, TUTTI_BLOCKING(options)},
                {Operand(input, Use::kRead), Operand(outputs[0], Use::kWrite)},
                [element, even](Endpoint& endpoint, std::vector<Operand>& o) {
                  endpoint.run("all_gather", [&](tuttiComm_t comm) {
                    const std::size_t count = o[0].count(element);
                    if (even)
                      return tuttiAllGather(o[0].data(), o[1].data(), count, element.type, comm, endpoint.stream());
                    const Blocks blocks(o[1], element);
                    return tuttiAllGatherV(o[0].data(), o[1].data(), count, blocks.counts.data(), blocks.starts.data(),
                                           element.type, comm, endpoint.stream());
                  });
                });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                                 const c10d::AllgatherOptions& options) {
  check_count(output.numel(), input.numel() * size_, "all_gather_into_tensor", "the output");
  const Element element = moved(input.scalar_type());
  return launch({OpType::_ALLGATHER_BASE, "tutti:_all_gather_base", options.timeout, TUTTI_BLOCKING(options)},
                {Operand(input, Use::kRead), Operand(output, Use::kWrite)},
                [element](Endpoint& endpoint, std::vector<Operand>& o) {
                  endpoint.run("all_gather_into_tensor", [&](tuttiComm_t comm) {
                    return tuttiAllGather(o[0].data(), o[1].data(), o[0].count(element), element.type, comm,
                                          endpoint.stream());
                  });
                });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::allgather_coalesced(Lists& outputs, Tensors& inputs,
                                                                     const c10d::AllgatherOptions& options) {
  if (outputs.size() != static_cast<std::size_t>(size_))
    C10_THROW_ERROR(ValueError, "tutti: all_gather_coalesced: needs a list of outputs for each rank");
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors blocks;
    for (const Tensors& of_rank : outputs) {
      check_count(of_rank.size(), inputs.size(), "all_gather_coalesced", "a rank's list");
      check_count(of_rank[i].numel(), inputs[i].numel(), "all_gather_coalesced", "an output");
      blocks.push_back(of_rank[i]);
    }
    operands.emplace_back(inputs[i], Use::kRead);
    operands.emplace_back(std::move(blocks), Use::kWrite);
  }
  return launch({OpType::ALLGATHER_COALESCED, "tutti:all_gather", options.timeout, TUTTI_BLOCKING(options), true},
                std::move(operands),
                [](Endpoint& endpoint, std::vector<Operand>& o) { gather_pairs(endpoint, "all_gather_coalesced", o); });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  check_count(outputs.size(), inputs.size(), "all_gather_into_tensor_coalesced", "the list of outputs");
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_count(outputs[i].numel(), inputs[i].numel() * size_, "all_gather_into_tensor_coalesced", "an output");
    operands.emplace_back(inputs[i], Use::kRead);
    operands.emplace_back(outputs[i], Use::kWrite);
  }
  return launch({OpType::_ALLGATHER_BASE, "tutti:_all_gather_base", options.timeout, TUTTI_BLOCKING(options), true},
                std::move(operands), [](Endpoint& endpoint, std::vector<Operand>& o) {
                  gather_pairs(endpoint, "all_gather_into_tensor_coalesced", o);
                });
}

}  // namespace tutti_torch
