// Tutti as a shared library whose CUDA driver is the tests' stand-in. Programs load it in the place of libtutti.so.0.
#include "stand_in_library.h"

#include <cstdio>
#include <memory>
#include <vector>

#include "support/device/stand_in_driver.h"

using tutti::test::Graph;
using tutti::test::stand_in;
using tutti::test::StandInDriver;
using tutti::test::StandInStream;

extern "C" {

void tuttiStandInStart(int devices, int first_gpu) {
  stand_in().set_devices(devices);
  stand_in().be_seen_as(first_gpu);
}

void tuttiStandInSetConnections(int connections) { stand_in().set_connections(connections); }

void tuttiStandInUse(int device) { StandInDriver::use(device); }

void* tuttiStandInAllocate(int device, size_t bytes) {
  void* memory = nullptr;
  return stand_in().allocate(device, tutti::Bytes{bytes}, &memory).ok() ? memory : nullptr;
}

void tuttiStandInFree(int device, void* memory) { (void)stand_in().release_pooled(device, memory); }

void* tuttiStandInCreateStream(int device) {
  tutti::DeviceDriver::Stream stream = nullptr;
  return stand_in().create_caller_stream(device, &stream).ok() ? stream : nullptr;
}

void tuttiStandInPut(void* stream, void (*fn)(void* user), void* user) {
  StandInDriver::put(stream, [fn, user] { fn(user); });
}

void tuttiStandInSynchronize(void* stream) { (void)stand_in().synchronize(stream); }

void* tuttiStandInCreateEvent(void) {
  tutti::DeviceDriver::Event event = nullptr;
  return stand_in().create_event(0, &event).ok() ? event : nullptr;
}

void tuttiStandInDestroyEvent(void* event) { (void)stand_in().destroy_event(event); }

void tuttiStandInRecord(int device, void* event, void* stream) { (void)stand_in().record(device, event, stream); }

void tuttiStandInWait(int device, void* stream, void* event) { (void)stand_in().wait(device, stream, event); }

int tuttiStandInQuery(void* event) {
  bool done = false;
  return stand_in().query(event, &done).ok() && done ? 1 : 0;
}

size_t tuttiStandInLaunches(void) { return stand_in().launches(); }

void tuttiStandInBeginCapture(void* stream) { stand_in().begin_capture(stream); }

void* tuttiStandInEndCapture(void** streams, int count) {
  auto graph = std::make_unique<std::shared_ptr<const Graph>>();
  std::vector<tutti::DeviceDriver::Stream> captured;
  const auto capture_of = [&](int i) { return static_cast<StandInStream*>(streams[i])->capture; };
  for (int i = 0; i < count; ++i)
    if (capture_of(i) == capture_of(0)) captured.push_back(streams[i]);
  const tutti::Status status = stand_in().end_capture(captured, graph.get());
  if (status.ok()) return graph.release();
  (void)std::fprintf(stderr, "stand-in: %s\n", status.text().c_str());
  return nullptr;
}

void tuttiStandInLaunch(void* graph, void* stream) {
  StandInDriver::launch(*static_cast<std::shared_ptr<const Graph>*>(graph), stream);
}

}  // extern "C"
