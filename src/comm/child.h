// Splits, shrinks and grows share these: options and ids that come from the parent, and exchanges on it.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/communicator.h"
#include "comm/create_options.h"
#include "comm/join/join.h"
#include "comm/messages/unique_id.h"
#include "core/costs_file.h"
#include "core/status.h"

namespace tutti {

/// The options that a communicator has from the one that it is made from.
inline CreateOptions options_of_child(Communicator& parent) {
  CreateOptions options;
  options.settings = parent.settings();
  options.costs = costs_text(parent.machine().costs);
  if (parent.device_calls().exist()) options.device = parent.device_calls().side()->device();
  return options;
}

/// Makes an id whose secret is derived from the parent's, and serves it from this process.
inline Status make_child_id(Communicator& parent, const Settings& settings, IdBytes* id) {
  return make_unique_id(settings, id, [&parent](const KeyId& nonce, Key* secret) {
    return parent.membership().secret_of_child(nonce, secret);
  });
}

/// Gives the whole of such an id, of which `shown` lacks the secret. All ranks of the parent can do that.
inline Status complete_id(Communicator& parent, const IdBytes& shown, IdBytes* whole) {
  UniqueId id;
  TUTTI_TRY(UniqueId::decode(shown, &id));
  TUTTI_TRY(parent.membership().secret_of_child(id.nonce, &id.secret));
  *whole = id.encode();
  return {};
}

/// Gives each rank what all ranks send, in their order. It is a call of `parent` by the name of `collective`.
template <class T>
Status gather_all(Communicator& parent, Collective collective, const T& mine, std::vector<T>* all) {
  all->resize(static_cast<std::size_t>(parent.ranks()));
  CallArguments arguments;
  arguments.collective = collective;
  arguments.send = &mine;
  arguments.recv = all->data();
  arguments.count = sizeof(T);
  arguments.type = static_cast<int>(DataType::kUint8);
  return parent.run(&arguments);
}

}  // namespace tutti
