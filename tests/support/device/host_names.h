// Hosts of tests at two levels: processes that call themselves hosts.
#pragma once

#include <cstdlib>
#include <string>

#include "support/device/device_floats.h"
#include "support/device/device_processes.h"

namespace tutti::test {

/// `processes` neighbours share a host.
inline void name_host(int process, int processes = 1) {
  ::setenv("TUTTI_HOSTID", ("host " + std::to_string(process / processes)).c_str(), 1);
}

}  // namespace tutti::test
