#include "core/settings.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>

#include "core/core_list.h"
#include "core/mutex.h"

extern char** environ;

namespace tutti {

namespace {

Status bad_value(const std::string& text, const char* expected) {
  return fail(Code::kInvalidArgument, "'{}' is not {}", text, expected);
}

/// The number that a text begins with, with a point whatever the program's locale. Returns where it ends; nullptr if
/// there is none.
const char* read_number(const std::string& text, double* number) {
  const char* begin = text.c_str();
  while (std::isspace(static_cast<unsigned char>(*begin)) != 0) ++begin;
  if (*begin == '+' && begin[1] != '-') ++begin;
  const bool is_hex = begin[0] == '0' && (begin[1] == 'x' || begin[1] == 'X');
  const auto format = is_hex ? std::chars_format::hex : std::chars_format::general;
  const auto [end, error] = std::from_chars(begin + (is_hex ? 2 : 0), text.c_str() + text.size(), *number, format);
  return error == std::errc() ? end : nullptr;
}

Status parse_number(const std::string& text, double low, double high, const char* expected, double* number) {
  double value = 0;
  const char* const end = read_number(text, &value);
  if (end == nullptr || *end != '\0' || !(value >= low && value <= high)) return bad_value(text, expected);
  *number = value;
  return {};
}

/// What is taken as it stands.
template <std::string Settings::*kField>
Status keep_text(const std::string& text, Settings* s) {
  s->*kField = text;
  return {};
}

Status parse_switch(const std::string& text, bool* value) {
  if (text == "1" || text == "on") {
    *value = true;
    return {};
  }
  if (text == "0" || text == "off" || text.empty()) {
    *value = false;
    return {};
  }
  return bad_value(text, "0, 1, off or on");
}

Status parse_transport(const std::string& text, Settings* s) {
  for (int kind = 0; kind <= static_cast<int>(TransportKind::kCuda); ++kind) {
    if (text != name_of(static_cast<TransportKind>(kind))) continue;
    s->transport = static_cast<TransportKind>(kind);
    return {};
  }
  return bad_value(text, "one of auto, shm, tcp, inproc, cuda");
}

Status parse_multicast(const std::string& text, Settings* s) {
  static constexpr const char* kModes[] = {"auto", "off", "mapped"};
  for (int mode = 0; mode < 3; ++mode) {
    if (text != kModes[mode]) continue;
    s->multicast = static_cast<MulticastMode>(mode);
    return {};
  }
  return bad_value(text, "one of auto, off, mapped");
}

Status parse_two_levels(const std::string& text, Settings* s) {
  Bytes from{0};
  if (text == "off") {
    s->two_levels_from.reset();
    return {};
  }
  if (!parse_bytes(text, &from).ok()) return bad_value(text, "a number of bytes such as 64K, or off");
  s->two_levels_from = from;
  return {};
}

Status parse_level(const std::string& text, Settings* s) {
  static constexpr const char* kLevels[] = {"error", "warn", "info", "debug", "trace"};
  for (int level = 0; level < 5; ++level) {
    if (text != kLevels[level]) continue;
    s->log_level = static_cast<LogLevel>(level);
    return {};
  }
  return bad_value(text, "one of error, warn, info, debug, trace");
}

Status parse_ports(const std::string& text, Settings* s) {
  if (text.empty()) return {};
  int first = 0;
  int last = 0;
  int used = 0;
  const int fields = std::sscanf(text.c_str(), "%d%n-%d%n", &first, &used, &last, &used);
  if (fields == 1) last = first;
  if (fields < 1 || static_cast<std::size_t>(used) != text.size() || first < 1 || last < first || last > 65535)
    return bad_value(text, "a port or a range of ports such as 20000-20100");
  s->port_first = static_cast<std::uint16_t>(first);
  s->port_last = static_cast<std::uint16_t>(last);
  return {};
}

Status parse_cores(const std::string& text, Settings* s) {
  return parse_core_list(text, &s->progress_cores) ? Status{} : bad_value(text, "a list of cores such as 0,2-3");
}

Status parse_simd(const std::string& text, Settings* s) {
  if (text != "auto" && text != "baseline" && text != "avx2" && text != "avx512")
    return bad_value(text, "one of auto, baseline, avx2, avx512");
  s->simd = text;
  return {};
}

/// A setting whose name is kept for a later version: accepted while it says "off", refused otherwise, so that
/// nobody believes in a protection or a mode that is not there.
Status parse_not_offered(const std::string& text, Settings*) {
  bool on = false;
  if (parse_switch(text, &on).ok() && !on) return {};
  return fail(Code::kUnsupported, "'{}' is not offered by this version", text);
}

constexpr SettingInfo kTable[] = {
    {"TUTTI_TRANSPORT", nullptr, "auto",
     "how bytes move: auto (shm within a host, tcp between), shm, tcp, inproc, cuda (as auto, but device buffers must "
     "be reached)",
     parse_transport},
    {"TUTTI_ALGO", nullptr, "auto", "algorithm for every collective that offers it: auto or a name such as ring",
     keep_text<&Settings::algorithm>},
    {"TUTTI_COSTS", nullptr, "auto",
     "what the choice of algorithms rests on, as rank 0 says it: auto (what tutti-probe measured on such a machine, "
     "else "
     "builtin), builtin, or a file of costs",
     keep_text<&Settings::costs>},
    {"TUTTI_HOSTID", nullptr, "",
     "ranks with different values count as on different hosts; empty: from boot and network",
     keep_text<&Settings::host_id>},
    {"TUTTI_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "",
     "interfaces for addresses: prefixes, ^ excludes, = exact; empty: all", keep_text<&Settings::socket_interface>},
    {"TUTTI_PORT_RANGE", nullptr, "", "ports that listeners may use, such as 20000-20100; empty: any", parse_ports},
    {"TUTTI_TIMEOUT", nullptr, "600", "seconds an operation waits for a live but silent peer; 0: for ever",
     [](const std::string& text, Settings* s) {
       return parse_number(text, 0, 1e9, "seconds, 0 or more", &s->timeout_seconds);
     }},
    {"TUTTI_JOIN_TIMEOUT", nullptr, "600", "seconds a join waits for the other ranks; 0: for ever",
     [](const std::string& text, Settings* s) {
       return parse_number(text, 0, 1e9, "seconds, 0 or more", &s->join_timeout_seconds);
     }},
    {"TUTTI_LOG", nullptr, "warn", "how much is logged: error, warn, info, debug, trace", parse_level},
    {"TUTTI_LOG_FILE", nullptr, "", "log to this file, %p is the process, no link outside of /dev; empty: stderr",
     keep_text<&Settings::log_file>},
    {"TUTTI_SECRET_FILE", nullptr, "",
     "file with the secret that joins by tcp://, torchrun and Slurm without PMI must share; empty: none",
     keep_text<&Settings::secret_file>},
    {"TUTTI_SIMD", nullptr, "auto", "instruction set of the CPU kernels: auto, baseline, avx2, avx512", parse_simd},
    {"TUTTI_TILE_BYTES", nullptr, "0", "bytes of a buffer worked on in one pass; 0: chosen by size",
     [](const std::string& text, Settings* s) { return parse_bytes(text, &s->tile_bytes); }},
    {"TUTTI_UNEXPECTED_BYTES", nullptr, "4G",
     "bytes of messages that a rank keeps, all together, until it receives them; more ends the communicator",
     [](const std::string& text, Settings* s) { return parse_bytes(text, &s->unexpected_bytes); }},
    {"TUTTI_SHM_SLOT_BYTES", nullptr, "256K",
     "payload of a large slot in shared memory; if TCP connects all ranks, half of the largest message",
     [](const std::string& text, Settings* s) {
       TUTTI_TRY(parse_bytes(text, &s->shm_slot_bytes));
       if (s->shm_slot_bytes < Bytes{8192} || s->shm_slot_bytes > Bytes{std::size_t{1} << 30})
         return bad_value(text, "between 8K and 1G");
       return Status{};
     }},
    {"TUTTI_SHM_SLOTS", nullptr, "4", "large slots a link in shared memory: a power of two from 2 to 64",
     [](const std::string& text, Settings* s) {
       double slots = 0;
       TUTTI_TRY(parse_number(text, 2, 64, "a power of two from 2 to 64", &slots));
       s->shm_slots = static_cast<std::uint32_t>(slots);
       if (slots != s->shm_slots || (s->shm_slots & (s->shm_slots - 1)) != 0)
         return bad_value(text, "a power of two from 2 to 64");
       return Status{};
     }},
    {"TUTTI_CMA", nullptr, "1", "1: local peers read registered memory directly where the kernel lets them; 0: copies",
     [](const std::string& text, Settings* s) { return parse_switch(text, &s->cma); }},
    {"TUTTI_MULTICAST", nullptr, "auto",
     "NVLink multicast between the GPUs of one process: auto (where they have it), off; mapped: a check of it on one "
     "GPU",
     parse_multicast},
    {"TUTTI_TWO_LEVELS", nullptr, "64K",
     "bytes that a call on device buffers moves from which on, across hosts, kernels do the part within each host; "
     "off: never",
     parse_two_levels},
    {"TUTTI_SPIN_US", nullptr, "-1", "microseconds a wait spins before it yields; -1: from ranks and cores",
     [](const std::string& text, Settings* s) {
       double spin = 0;
       TUTTI_TRY(parse_number(text, -1, 1e7, "microseconds, or -1", &spin));
       s->spin_microseconds = static_cast<std::int64_t>(spin);
       return Status{};
     }},
    {"TUTTI_PROGRESS_CORES", nullptr, "", "cores of the progress thread, such as 0,2-3; empty: any", parse_cores},
    {"TUTTI_DETERMINISTIC", nullptr, "0", "1: sums have the same bits whatever algorithm, size or placement",
     [](const std::string& text, Settings* s) { return parse_switch(text, &s->deterministic); }},
    {"TUTTI_TLS", nullptr, "off", "on: encrypt what travels between hosts (TLS 1.3); the same on all ranks",
     [](const std::string& text, Settings* s) { return parse_switch(text, &s->tls); }},
    {"TUTTI_RECONNECT", nullptr, "10",
     "seconds a lost connection between hosts is tried again; 0: a rank is dead with it; a silent host has 1 s at "
     "least",
     [](const std::string& text, Settings* s) {
       return parse_number(text, 0, 1e6, "seconds, 0 or more", &s->reconnect_seconds);
     }},
    {"TUTTI_CHECKSUM", nullptr, "0", "1: CRC32C of all that travels between hosts; what is damaged is sent again",
     [](const std::string& text, Settings* s) { return parse_switch(text, &s->checksum); }},
    {"TUTTI_SELFTEST", nullptr, "0", "reserved for known sums at the join; this version offers only 0",
     parse_not_offered},
    {"TUTTI_TRACE", nullptr, "0", "reserved for a record of what every rank does; this version offers only 0",
     parse_not_offered},
};

/// It races with a program that changes its environment meanwhile, as all of the C library does.
/// Nothing in a program that runs with more rights than its user has: that one must not choose its files.
const char* environment(const char* name) { return ::secure_getenv(name); }  // NOLINT(concurrency-mt-unsafe)

/// Variables of the test programs, the benchmark, the launchers' glue and the Python packages, which are ours but not
/// settings.
bool is_foreign(const std::string& name) {
  return name.rfind("TUTTI_PERF_", 0) == 0 || name.rfind("TUTTI_TEST_", 0) == 0 || name == "TUTTI_TORCH_AS" ||
         name == "TUTTI_TORCH_CUDA";
}

void warn_of_unknown() {
  static Mutex mutex;
  // Never destroyed, see log.cc.
  static std::set<std::string>* const warned TUTTI_POINTEE_GUARDED_BY(mutex) = new std::set<std::string>;
  // Whoever has it warns already, or did so in the process that this one was forked from.
  if (!mutex.try_lock()) return;
  const MutexLock lock(mutex, std::adopt_lock);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "TUTTI_", 6) != 0) continue;
    if (::getauxval(AT_SECURE) != 0 && warned->insert("").second)
      log(LogLevel::kWarn, {}, "TUTTI_* is not read: this program has more rights than its user");
    const std::string name(*entry, std::strcspn(*entry, "="));
    bool known = is_foreign(name);
    for (const SettingInfo& info : kTable) known = known || name == info.name;
    if (!known && warned->insert(name).second)
      log(LogLevel::kWarn, {}, "{} is not a setting of this version; tutti-perf --env lists them", name);
  }
}

}  // namespace

const char* name_of(TransportKind kind) {
  static constexpr const char* kNames[] = {"auto", "shm", "tcp", "inproc", "cuda"};
  return kNames[static_cast<int>(kind)];
}

Settings::Settings() {
  for (const SettingInfo& info : kTable) (void)info.parse(info.initial, this);  // a test parses each of them
}

std::span<const SettingInfo> setting_table() { return kTable; }

const char* setting_source(const SettingInfo& info) {
  const bool other = info.fallback != nullptr && environment(info.name) == nullptr;
  return other && environment(info.fallback) != nullptr ? info.fallback : info.name;
}

std::string setting_value(const SettingInfo& info) {
  const char* const value = environment(setting_source(info));
  return value != nullptr ? value : info.initial;
}

Status read_settings(Settings* settings) {
  Settings fresh;
  for (const SettingInfo& info : kTable) {
    const char* const value = environment(setting_source(info));
    if (value == nullptr) continue;
    const Status parsed = info.parse(value, &fresh);
    if (!parsed.ok()) return fail(parsed.code(), "setting {}: {}", setting_source(info), parsed.text());
    if (info.name == std::string_view("TUTTI_SOCKET_IFNAME")) fresh.socket_interface_source = setting_source(info);
  }
  log_configure(fresh.log_level, fresh.log_file);
  warn_of_unknown();
  *settings = std::move(fresh);
  return {};
}

Status parse_bytes(const std::string& text, Bytes* bytes) {
  double number = 0;
  const char* end = read_number(text, &number);
  if (end == nullptr || !(number >= 0)) return bad_value(text, "a size such as 8, 64K, 1.5M or 2G");
  double factor = 1;
  switch (std::toupper(static_cast<unsigned char>(*end))) {
    case 'G':  // NOLINT(bugprone-branch-clone): falls through
      factor *= 1024;
      [[fallthrough]];
    case 'M':
      factor *= 1024;
      [[fallthrough]];
    case 'K':
      factor *= 1024;
      ++end;
      break;
    default:
      break;
  }
  if (factor > 1 && std::strcmp(end, "iB") == 0) end += 2;
  if (*end == 'B') ++end;
  if (*end != '\0' || number * factor > 9e15) return bad_value(text, "a size such as 8, 64K, 1.5M or 2G");
  *bytes = Bytes{static_cast<std::size_t>(number * factor)};
  return {};
}

std::string cache_folder() {
  if (const char* folder = environment("XDG_CACHE_HOME"); folder != nullptr && folder[0] == '/') return folder;
  if (const char* home = environment("HOME"); home != nullptr && home[0] == '/') return std::string(home) + "/.cache";
  return {};
}

int usable_cores() { return std::max(1, static_cast<int>(usable_core_list().size())); }

}  // namespace tutti
