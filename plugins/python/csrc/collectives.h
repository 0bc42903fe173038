// The calls of a communicator that move data.
#pragma once

#include "communicator.h"

namespace tutti_python {

/// Collectives of equal blocks.
void bind_collectives(nb::class_<Communicator>& communicator);
/// Collectives of unequal blocks, sends and receives.
void bind_transfers(nb::class_<Communicator>& communicator);

/// Throws InvalidArgument unless two arrays of a call have one type.
void check_same_type(const Array& one, const Array& other);
/// Throws InvalidArgument unless `has` has `wanted` elements. `name` is the argument's.
void check_count(const Array& has, size_t wanted, const char* name);

}  // namespace tutti_python
