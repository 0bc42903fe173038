#include "comm/create_options.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "comm/membership/hub.h"
#include "core/log.h"
#include "kernels/kernels.h"

namespace tutti {

namespace {

Status switch_field(const char* name, int value, bool* field) {
  if (value == TUTTI_UNDEF_INT) return {};
  if (value != 0 && value != 1) return fail(Code::kInvalidArgument, "config.{} is {}, not 0 or 1", name, value);
  if (field != nullptr) *field = value == 1;
  return {};
}

Status seconds_field(const char* name, double value, double* field) {
  if (std::isnan(value)) return {};
  if (!(value >= 0)) return fail(Code::kInvalidArgument, "config.{} is {}, not 0 or more seconds", name, value);
  *field = value;
  return {};
}

Status wire_field(int type, Settings* settings) {
  if (type != static_cast<int>(tuttiDataTypeMax)) settings->wire_type = type == tuttiFloat32 ? -1 : type;
  const int wire = settings->wire_type;
  if (wire < 0 && type >= 0) return {};
  if (wire < 0 || wire >= kDataTypes || !is_wire_type(static_cast<DataType>(wire)))
    return fail(Code::kInvalidArgument, "config.wireType {} is neither float32 nor a float of 8 or 16 bits", wire);
  if (settings->deterministic)
    return fail(Code::kInvalidArgument, "config.wireType {}: the deterministic mode excludes wire types",
                name_of(static_cast<DataType>(wire)));
  return {};
}

// Whether there is such a device is found when the join is prepared.
Status device_field(int device, CreateOptions* options) {
  if (device == TUTTI_UNDEF_INT) return {};
  if (device < TUTTI_NO_DEVICE)
    return fail(Code::kInvalidArgument, "config.device is {}, neither TUTTI_NO_DEVICE nor 0 or more", device);
  options->takes_device = device != TUTTI_NO_DEVICE;
  options->device = device;
  return {};
}

}  // namespace

Status apply_config(const tuttiConfig_t* config, CreateOptions* options) {
  if (config == nullptr) return {};
  if (config->magic != TUTTI_CONFIG_MAGIC || config->size < offsetof(tuttiConfig_t, blocking))
    return fail(Code::kInvalidArgument, "the config was not set up with TUTTI_CONFIG_INITIALIZER");
  tuttiConfig_t own = TUTTI_CONFIG_INITIALIZER;
  std::memcpy(&own, config, std::min(config->size, sizeof own));  // fields that the caller's version lacks stay unset
  TUTTI_TRY(switch_field("blocking", own.blocking, nullptr));
  TUTTI_TRY(switch_field("splitShare", own.splitShare, nullptr));
  if (own.blocking == 0 && Hub::first_time("blocking = 0"))
    log(LogLevel::kWarn, {}, "config.blocking = 0 has no effect: joins and splits complete before they return");
  TUTTI_TRY(switch_field("deterministic", own.deterministic, &options->settings.deterministic));
  TUTTI_TRY(seconds_field("timeoutSeconds", own.timeoutSeconds, &options->settings.timeout_seconds));
  TUTTI_TRY(seconds_field("joinTimeoutSeconds", own.joinTimeoutSeconds, &options->settings.join_timeout_seconds));
  TUTTI_TRY(wire_field(static_cast<int>(own.wireType), &options->settings));
  TUTTI_TRY(device_field(own.device, options));
  if (own.commName != nullptr) options->name = own.commName;
  return {};
}

Status read_options(const tuttiConfig_t* config, CreateOptions* options) {
  TUTTI_TRY(read_settings(&options->settings));
  (void)select_simd(options->settings.simd);  // the setting's parser has checked the name
  return apply_config(config, options);
}

}  // namespace tutti
