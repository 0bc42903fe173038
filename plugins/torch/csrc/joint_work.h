// Several works as one.
#pragma once

#include "work.h"

namespace tutti_torch {

/// Over when all of `works` are; its error is that of the first one that has one, its results are theirs in order.
WorkPointer join_works(int rank, std::vector<WorkPointer> works);

}  // namespace tutti_torch
