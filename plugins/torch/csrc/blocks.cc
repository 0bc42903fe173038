// Operations with a block for each rank: gather, scatter, reduce_scatter, alltoall.
#include "calls.h"

namespace tutti_torch {

ProcessGroupTutti::WorkResult ProcessGroupTutti::gather(Lists& outputs, Tensors& inputs,
                                                        const c10d::GatherOptions& options) {
  const at::Tensor& input = only(inputs, "gather");
  check_root(options.rootRank, "gather");
  const int root = static_cast<int>(options.rootRank);
  const Element element = moved(input.scalar_type());
  std::vector<Operand> operands{Operand(input, Use::kRead)};
  if (root == rank_) {
    if (outputs.size() != 1) C10_THROW_ERROR(ValueError, "tutti: gather: the root needs one list of outputs");
    check_list(outputs[0], "gather");
    for (const at::Tensor& output : outputs[0]) check_count(output.numel(), input.numel(), "gather", "an output");
    operands.emplace_back(outputs[0], Use::kWrite);
  } else if (!outputs.empty() && !outputs[0].empty()) {
    C10_THROW_ERROR(ValueError, "tutti: gather: outputs on a rank that is not the root");
  }
  return launch({OpType::GATHER, "tutti:gather", options.timeout, TUTTI_BLOCKING(options)}, std::move(operands),
                [element, root](Endpoint& endpoint, std::vector<Operand>& o) {
                  endpoint.run("gather", [&](tuttiComm_t comm) {
                    return tuttiGather(o[0].data(), o.size() > 1 ? o[1].data() : nullptr, o[0].count(element),
                                       element.type, root, comm, endpoint.stream());
                  });
                });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::gather_single(at::Tensor& output, at::Tensor& input,
                                                               const c10d::GatherOptions& options) {
  check_root(options.rootRank, "gather_single");
  const int root = static_cast<int>(options.rootRank);
  const Element element = moved(input.scalar_type());
  std::vector<Operand> operands{Operand(input, Use::kRead)};
  if (root == rank_) {  // elsewhere the output is an empty stand-in
    check_count(output.numel(), input.numel() * size_, "gather_single", "the output");
    operands.emplace_back(output, Use::kWrite);
  }
  return launch({OpType::GATHER, "tutti:gather", options.timeout, TUTTI_BLOCKING(options)}, std::move(operands),
                [element, root](Endpoint& endpoint, std::vector<Operand>& o) {
                  endpoint.run("gather_single", [&](tuttiComm_t comm) {
                    return tuttiGather(o[0].data(), o.size() > 1 ? o[1].data() : nullptr, o[0].count(element),
                                       element.type, root, comm, endpoint.stream());
                  });
                });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::gather_into_tensor(at::Tensor& output, at::Tensor& input,
                                                                    const c10d::GatherOptions& options) {
  return gather_single(output, input, options);
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::scatter(Tensors& outputs, Lists& inputs,
                                                         const c10d::ScatterOptions& options) {
  const at::Tensor& output = only(outputs, "scatter");
  check_root(options.rootRank, "scatter");
  const int root = static_cast<int>(options.rootRank);
  const Element element = moved(output.scalar_type());
  std::vector<Operand> operands{Operand(output, Use::kWrite)};
  if (root == rank_) {
    if (inputs.size() != 1) C10_THROW_ERROR(ValueError, "tutti: scatter: the root needs one list of inputs");
    check_list(inputs[0], "scatter");
    for (const at::Tensor& input : inputs[0]) check_count(input.numel(), output.numel(), "scatter", "an input");
    operands.emplace_back(inputs[0], Use::kRead);
  } else if (!inputs.empty() && !inputs[0].empty()) {
    C10_THROW_ERROR(ValueError, "tutti: scatter: inputs on a rank that is not the root");
  }
  return launch({OpType::SCATTER, "tutti:scatter", options.timeout, TUTTI_BLOCKING(options)}, std::move(operands),
                [element, root](Endpoint& endpoint, std::vector<Operand>& o) {
                  endpoint.run("scatter", [&](tuttiComm_t comm) {
                    return tuttiScatter(o.size() > 1 ? o[1].data() : nullptr, o[0].data(), o[0].count(element),
                                        element.type, root, comm, endpoint.stream());
                  });
                });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::reduce_scatter(Tensors& outputs, Lists& inputs,
                                                                const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only(outputs, "reduce_scatter");
  if (inputs.size() != 1) C10_THROW_ERROR(ValueError, "tutti: reduce_scatter: takes one list of inputs");
  check_list(inputs[0], "reduce_scatter");
  check_count(inputs[0][rank_].numel(), output.numel(), "reduce_scatter", "this rank's input");
  const Element element = reduced(output.scalar_type(), options.reduceOp, "reduce_scatter");
  const bool even = of_one_size(inputs[0]);
  return launch({OpType::REDUCE_SCATTER, "tutti:reduce_scatter", options.timeout, TUTTI_BLOCKING(options)},
                {Operand(inputs[0], Use::kRead), Operand(output, Use::kWrite)},
                [element, even, rank = rank_, op = options.reduceOp](Endpoint& endpoint, std::vector<Operand>& o) {
                  const Reduction reduction(op, element.type, endpoint);
                  if (even) {
                    return endpoint.run("reduce_scatter", [&](tuttiComm_t comm) {
                      return tuttiReduceScatter(o[0].data(), o[1].data(), o[1].count(element), element.type,
                                                reduction.get(), comm, endpoint.stream());
                    });
                  }
                  const Blocks blocks(o[0], element);
                  const std::size_t width = o[0].bytes() / std::max<std::size_t>(o[0].count(element), 1);
                  in_group(endpoint, "reduce_scatter", o[0].size(), [&](std::size_t root, tuttiComm_t comm) {
                    const char* const block = static_cast<const char*>(o[0].data()) + blocks.starts[root] * width;
                    void* const result = static_cast<int>(root) == rank ? o[1].data() : nullptr;
                    return tuttiReduce(block, result, blocks.counts[root], element.type, reduction.get(),
                                       static_cast<int>(root), comm, endpoint.stream());
                  });
                });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                      const c10d::ReduceScatterOptions& options) {
  check_count(input.numel(), output.numel() * size_, "reduce_scatter_tensor", "the input");
  const Element element = reduced(output.scalar_type(), options.reduceOp, "reduce_scatter_tensor");
  return launch({OpType::_REDUCE_SCATTER_BASE, "tutti:_reduce_scatter_base", options.timeout, TUTTI_BLOCKING(options)},
                {Operand(input, Use::kRead), Operand(output, Use::kWrite)},
                [element, op = options.reduceOp](Endpoint& endpoint, std::vector<Operand>& o) {
                  const Reduction reduction(op, element.type, endpoint);
                  endpoint.run("reduce_scatter_tensor", [&](tuttiComm_t comm) {
                    return tuttiReduceScatter(o[0].data(), o[1].data(), o[1].count(element), element.type,
                                              reduction.get(), comm, endpoint.stream());
                  });
                });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter_tensor_coalesced";
  check_count(outputs.size(), inputs.size(), kName, "the list of outputs");
  if (inputs.empty()) C10_THROW_ERROR(ValueError, "tutti: reduce_scatter_tensor_coalesced: no tensors");
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_count(inputs[i].numel(), outputs[i].numel() * size_, kName, "an input");
    static_cast<void>(reduced(inputs[i].scalar_type(), options.reduceOp, kName));
    operands.emplace_back(inputs[i], Use::kRead);
    operands.emplace_back(outputs[i], Use::kWrite);
  }
  const Launch kind{OpType::_REDUCE_SCATTER_BASE, "tutti:_reduce_scatter_base", options.timeout,
                    TUTTI_BLOCKING(options), true};
  return launch(kind, std::move(operands), [op = options.reduceOp](Endpoint& endpoint, std::vector<Operand>& o) {
    std::vector<std::unique_ptr<Reduction>> reductions;
    for (std::size_t i = 0; i < o.size(); i += 2)
      reductions.push_back(std::make_unique<Reduction>(op, moved(o[i].dtype()).type, endpoint));
    in_group(endpoint, kName, o.size() / 2, [&](std::size_t i, tuttiComm_t comm) {
      const Element element = moved(o[2 * i].dtype());
      return tuttiReduceScatter(o[2 * i].data(), o[2 * i + 1].data(), o[2 * i + 1].count(element), element.type,
                                reductions[i]->get(), comm, endpoint.stream());
    });
  });
}

// No rank knows whether the others gave splits, so equal blocks are no operation of their own here.
ProcessGroupTutti::WorkResult ProcessGroupTutti::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                               std::vector<std::int64_t>& output_splits,
                                                               std::vector<std::int64_t>& input_splits,
                                                               const c10d::AllToAllOptions& options) {
  c10d::checkSplitSizes(input_splits, input, size_);
  c10d::checkSplitSizes(output_splits, output, size_);
  const Element element = moved(input.scalar_type());
  if (input_splits.empty() && output_splits.empty())
    check_count(output.numel(), input.numel(), "all_to_all_single", "the output");
  const auto row = [&](const at::Tensor& t) {
    return t.size(0) == 0 ? std::size_t{0} : static_cast<std::size_t>(t.numel() / t.size(0)) * element.per;
  };
  const auto rows = [](const at::Tensor& t) {
    return t.dim() == 0 ? std::size_t{0} : static_cast<std::size_t>(t.size(0));
  };
  const Blocks sent(input_splits, row(input), rows(input), size_);
  const Blocks received(output_splits, row(output), rows(output), size_);
  return launch({OpType::ALLTOALL_BASE, "tutti:all_to_all", options.timeout, TUTTI_BLOCKING(options)},
                {Operand(input.is_alias_of(output) ? input.clone() : input, Use::kRead), Operand(output, Use::kWrite)},
                [element, sent, received](Endpoint& endpoint, std::vector<Operand>& o) {
                  endpoint.run("all_to_all_single", [&](tuttiComm_t comm) {
                    return tuttiAllToAllV(o[0].data(), sent.counts.data(), sent.starts.data(), o[1].data(),
                                          received.counts.data(), received.starts.data(), element.type, comm,
                                          endpoint.stream());
                  });
                });
}

ProcessGroupTutti::WorkResult ProcessGroupTutti::alltoall(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllToAllOptions& options) {
  check_list(outputs, "all_to_all");
  check_list(inputs, "all_to_all");
  const Element element = moved(inputs.front().scalar_type());
  return launch({OpType::ALLTOALL, "tutti:all_to_all", options.timeout, TUTTI_BLOCKING(options)},
                {Operand(inputs, Use::kRead), Operand(outputs, Use::kWrite)},
                [element](Endpoint& endpoint, std::vector<Operand>& o) {
                  const Blocks sent(o[0], element);
                  const Blocks received(o[1], element);
                  endpoint.run("all_to_all", [&](tuttiComm_t comm) {
                    return tuttiAllToAllV(o[0].data(), sent.counts.data(), sent.starts.data(), o[1].data(),
                                          received.counts.data(), received.starts.data(), element.type, comm,
                                          endpoint.stream());
                  });
                });
}

}  // namespace tutti_torch
