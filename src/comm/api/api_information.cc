// The C functions that inform about errors, settings and what a communicator uses.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "comm/api/handle.h"
#include "comm/communicator_information.h"
#include "core/settings.h"

using tutti::Bytes;
using tutti::Code;
using tutti::Collective;
using tutti::Status;

namespace {

/// The collective of that name, if it has algorithms; else Collective::kNone.
Collective collective_named(std::string_view name) {
  for (int i = 1; i < tutti::kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (name == tutti::name_of(collective) && tutti::has_algorithms(collective)) return collective;
  }
  return Collective::kNone;
}

Status algorithm_text(tutti::Communicator& comm, std::string_view key, bool on_device, std::string* text) {
  const std::size_t colon = std::min(key.find(':'), key.size());
  const Collective collective = collective_named(key.substr(0, colon));
  const std::string_view number = key.substr(std::min(colon + 1, key.size()));
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), bytes);
  if (collective == Collective::kNone || error != std::errc{} || end != number.data() + number.size())
    return tutti::fail(Code::kInvalidArgument, "'{}' is not <collective>:<bytes>", key);
  return tutti::algorithm_for(comm, collective, Bytes{bytes}, on_device, text);
}

Status names_text(tutti::Communicator& comm, std::string_view name, std::string* text) {
  const Collective collective = collective_named(name);
  if (collective == Collective::kNone)
    return tutti::fail(Code::kInvalidArgument, "'{}' is no collective with algorithms", name);
  *text = tutti::algorithms_of(comm, collective);
  return {};
}

Status info_text(tutti::Communicator& comm, std::string_view key, std::string* text) {
  constexpr std::string_view kAlgorithm = "algorithm:", kOnDevice = "device_algorithm:";
  for (const std::string_view begin : {kAlgorithm, kOnDevice})
    if (key.substr(0, begin.size()) == begin)
      return algorithm_text(comm, key.substr(begin.size()), begin == kOnDevice, text);
  constexpr std::string_view kNames = "algorithms:";
  if (key.substr(0, kNames.size()) == kNames) return names_text(comm, key.substr(kNames.size()), text);
  if (key == "transport") {
    *text = tutti::transport_of(comm);
    return {};
  }
  if (key == "device_transport") return tutti::device_transport_of(comm, text);
  if (key == "members") return tutti::members_of(comm, text);
  return tutti::fail(Code::kInvalidArgument,
                     "'{}' is not a key: transport, algorithm:<collective>:<bytes>, algorithms:<collective>, "
                     "device_transport, device_algorithm:<collective>:<bytes>, members",
                     key);
}

}  // namespace

extern "C" {

tuttiResult_t tuttiGetVersion(int* version) {
  return tutti::guard(nullptr, [&]() -> Status {
    TUTTI_TRY(tutti::require(version, "version"));
    *version = TUTTI_VERSION_CODE;
    return {};
  });
}

const char* tuttiGetErrorString(tuttiResult_t result) { return tutti::name_of(static_cast<Code>(result)); }

const char* tuttiGetLastError(tuttiComm_t comm) {
  try {
    std::shared_ptr<tutti::Communicator> held;
    if (comm != nullptr && tutti::hold(comm, &held).ok() && held->failures().failed())
      return tutti::hold_text(held->failures().status());
  } catch (...) {  // there is no memory to say what is wrong with the handle
  }
  return tutti::last_error(comm);
}

tuttiResult_t tuttiSetLogCallback(void (*fn)(int, const char*, void*), void* user) {
  tutti::log_set_callback(fn, user);
  return tuttiSuccess;
}

tuttiResult_t tuttiSettingInfo(int index, const char** name, const char** value, const char** initial,
                               const char** meaning) {
  const auto table = tutti::setting_table();
  // A caller's loop ends at the end of the table, which is not worth a line in the log.
  if (index < 0 || static_cast<std::size_t>(index) >= table.size()) return tuttiInvalidArgument;
  return tutti::guard(nullptr, [&]() -> Status {
    const tutti::SettingInfo& info = table[static_cast<std::size_t>(index)];
    if (name != nullptr) *name = info.name;
    if (value != nullptr) *value = tutti::hold_text(tutti::setting_value(info));
    if (initial != nullptr) *initial = info.initial;
    if (meaning != nullptr) *meaning = info.meaning;
    return {};
  });
}

tuttiResult_t tuttiCommGetInfo(tuttiComm_t comm, const char* key, char* value, size_t size) {
  return tutti::guard(comm, [&]() -> Status {
    std::shared_ptr<tutti::Communicator> held;
    TUTTI_TRY(tutti::hold(comm, &held));
    TUTTI_TRY(tutti::require(key, "key"));
    TUTTI_TRY(tutti::require(value, "value"));
    tutti::CallGuard call_guard;  // the other keys read what belongs to the call in progress
    if (std::string_view(key) != "transport") TUTTI_TRY(call_guard.enter(comm));
    std::string text;
    TUTTI_TRY(info_text(*held, key, &text));
    const std::size_t written = std::min(text.size() + 1, size);
    if (written > 0) {
      std::memcpy(value, text.c_str(), written - 1);
      value[written - 1] = 0;
    }
    if (written == text.size() + 1) return {};
    return tutti::fail(Code::kInvalidArgument, "the value needs {} bytes, {} were given", text.size() + 1, size);
  });
}

tuttiResult_t tuttiCommMemStats(tuttiComm_t comm, tuttiMemStat_t what, uint64_t* bytes) {
  return tutti::guard(comm, [&]() -> Status {
    std::shared_ptr<tutti::Communicator> held;
    TUTTI_TRY(tutti::hold(comm, &held));
    TUTTI_TRY(tutti::require(bytes, "bytes"));
    tutti::CallGuard call_guard;  // as in tuttiCommGetInfo
    if (what != tuttiMemStatShared) TUTTI_TRY(call_guard.enter(comm));
    switch (what) {
      case tuttiMemStatDevice:
        return tutti::device_bytes_of(*held, bytes);
      case tuttiMemStatHost:
        return tutti::host_bytes_of(*held, bytes);
      case tuttiMemStatShared:
        *bytes = tutti::shared_bytes_of(*held);
        return {};
    }
    return tutti::fail(Code::kInvalidArgument, "{} is not a tuttiMemStat_t", static_cast<int>(what));
  });
}

}  // extern "C"
