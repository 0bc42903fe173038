// The one table of settings: TUTTI_* environment variables, read once per communicator into a plain struct.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/status.h"
#include "core/units.h"

namespace tutti {

enum class TransportKind : std::uint8_t { kAuto = 0, kShm = 1, kTcp = 2, kInproc = 3, kCuda = 4 };
const char* name_of(TransportKind kind);

/// How kernels tell all ranks of a message.
enum class MulticastMode : std::uint8_t {
  kAuto,    ///< by NVLink multicast where the ranks' devices have it
  kOff,     ///< in the writer's memory
  kMapped,  ///< by a second address of one memory, or not at all: a check for one device
};

struct Settings {
  Settings();  ///< the defaults, which the table has

  TransportKind transport{};
  std::string algorithm;
  std::string costs;             ///< what the choice rests on: auto, builtin or a file (costs_file.h)
  std::string host_id;           ///< empty: boot id and network namespace
  std::string socket_interface;  ///< NCCL's syntax; empty: all
  std::string socket_interface_source = "TUTTI_SOCKET_IFNAME";  ///< the variable that it comes from, for texts
  std::uint16_t port_first{};                                   ///< 0: any port
  std::uint16_t port_last{};
  double timeout_seconds{};  ///< 0: for ever
  double join_timeout_seconds{};
  bool deterministic{};
  int wire_type = -1;  ///< what float32 travels as in reductions, a DataType; -1: as it is. Only a config sets it.
  bool tls{};
  double reconnect_seconds{};  ///< how long a lost connection between hosts is tried again
  bool checksum{};             ///< CRC32C of what travels between hosts
  std::string secret_file;
  LogLevel log_level{};
  std::string log_file;
  std::string simd;
  Bytes unexpected_bytes;  ///< of messages that a rank keeps until it receives them
  Bytes tile_bytes;        ///< 0: chosen by the library
  Bytes shm_slot_bytes;
  std::uint32_t shm_slots{};
  bool cma{};
  MulticastMode multicast{};
  /// What a call on device buffers moves from which on it runs at two levels across hosts; nothing: never.
  std::optional<Bytes> two_levels_from;
  std::int64_t spin_microseconds{};  ///< -1: chosen from ranks and cores
  std::vector<int> progress_cores;   ///< cores for the progress thread; empty: wherever the system puts it
};

/// One row of the table.
struct SettingInfo {
  const char* name;      ///< "TUTTI_TIMEOUT"
  const char* fallback;  ///< another variable read when this one is unset, or nullptr
  const char* initial;   ///< the default, as text
  const char* meaning;   ///< one sentence, with units
  Status (*parse)(const std::string& text, Settings* settings);
};
std::span<const SettingInfo> setting_table();

/// Reads the environment. A value that does not parse is an error that names variable, value and what would be right.
/// Unknown TUTTI_* variables are warned of, once per process and name.
Status read_settings(Settings* settings);

/// The variable that a row's value comes from: its own or, when only that one is set, the fallback.
const char* setting_source(const SettingInfo& info);

/// The environment's text for a row (its own variable, then the fallback), or the default.
std::string setting_value(const SettingInfo& info);

/// "8", "64K", "1.5M", "2G": powers of 1024.
Status parse_bytes(const std::string& text, Bytes* bytes);

/// The user's cache folder: XDG_CACHE_HOME, else .cache at home; empty: neither is set.
std::string cache_folder();

/// Cores this process may run on.
int usable_cores();

}  // namespace tutti
