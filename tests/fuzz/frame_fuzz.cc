// The frames of a tcp link. What is accepted must be written again as it was.
#include "bytes.h"
#include "transport/tcp/tcp_frame.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  fuzz::Bytes input(data, size);
  const unsigned how = input.u8();
  const FrameCheck check{how % 2 == 1, how / 2};
  const auto bytes = input.take(TcpFrame::kBytes);
  if (bytes.size() != TcpFrame::kBytes) return 0;
  TcpFrame frame;
  const auto view = bytes.first<TcpFrame::kBytes>();
  if (!decode(view, Bytes{65536}, check, &frame)) return 0;
  fuzz::demand(frame.payload <= 65536 + TcpFrame::kBytes, "no more than a message");
  std::array<std::byte, TcpFrame::kBytes> again{};
  encode(frame, again, check.mark);
  fuzz::demand(std::equal(again.begin(), again.end(), bytes.begin()), "it is written as it was");
  return 0;
}
