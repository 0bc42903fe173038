#include "schedule/simulator/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "schedule/peer_list.h"

namespace tutti {
namespace {

// Tenths of a pixel.
using Place = std::int64_t;

constexpr Place kLeft = 760;       ///< where time begins; the ranks' names are left of it
constexpr Place kTop = 640;        ///< below title and caption
constexpr Place kBox = 220;        ///< height of a step
constexpr Place kGap = 200;        ///< between ranks, for the arrows
constexpr Place kNarrowest = 250;  ///< a box with room for its number
constexpr Place kWidest = 16'000;
constexpr Place kMargin = 240;
constexpr int kKeyChunks = 16;  ///< the key names so many colours at most
constexpr Place kLetter = 72;
constexpr const char* kArrows = "An arrow is a message, from when it is sent to when it is used.";

std::string px(Place tenths) { return fmt::format("{}.{}", tenths / 10, tenths % 10); }

struct Color {
  int red, green, blue;
};

/// Told apart by most eyes (Okabe, Ito 2008); lightened so that black numbers stand on them.
constexpr std::array<Color, 8> kFewColors{{{86, 180, 233},
                                           {230, 159, 0},
                                           {0, 178, 135},
                                           {240, 228, 66},
                                           {226, 120, 60},
                                           {214, 140, 180},
                                           {110, 150, 220},
                                           {170, 170, 170}}};

/// Around the circle of hues, every second one darker, so that neighbours differ.
Color hue(std::uint32_t index, std::uint32_t count) {
  const auto degrees = static_cast<int>(index * 360 / count);
  const int high = index % 2 == 0 ? 248 : 208;
  const int low = index % 2 == 0 ? 150 : 108;
  const int part = degrees % 60 * (high - low) / 60;
  switch (degrees / 60) {
    case 0:
      return {high, low + part, low};
    case 1:
      return {high - part, high, low};
    case 2:
      return {low, high, low + part};
    case 3:
      return {low, high - part, high};
    case 4:
      return {low + part, low, high};
    default:
      return {high, low, high - part};
  }
}

std::string text_of(Color c) { return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue); }
std::string darker(Color c) { return text_of({c.red * 11 / 20, c.green * 11 / 20, c.blue * 11 / 20}); }

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

class Picture {
 public:
  Picture(const Algorithm& algorithm, const SimulatedCall& call, const Trace& trace, const PictureText& text)
      : algorithm_(algorithm), call_(call), trace_(trace), text_(text) {
    lanes_ = static_cast<std::uint32_t>(call.shape.lanes);
    barrier_ = algorithm.collective == Collective::kBarrier;
    exchanges_ = algorithm.collective == Collective::kAllToAll;
    for (const SimulatedStep& step : trace.steps) {
      end_ = std::max(end_, step.end);
      spans_ = spans_ || step.step.span.count > 1;
      colors_ = std::max(colors_, color_index(step.step.chunk, step.pass) + 1);
    }
    scale();
  }

  std::string svg() {
    std::string body = hosts() + rows() + arrows() + boxes() + axis() + key();
    const Place width = std::max(kLeft + width_ + kMargin, heading_width());
    const Place height = axis_top() + 900;
    std::string head = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"11\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
        px(width), px(height));
    head += label(kMargin, 260, escaped(text_.title), "font-size=\"15\" font-weight=\"bold\"");
    head += label(kMargin, 450, escaped(text_.caption), "fill=\"#555555\"");
    return head + body + "</svg>\n";
  }

 private:
  /// As wide as the shortest step needs to be legible, and no wider than the page.
  void scale() {
    Time shortest = end_;
    for (const SimulatedStep& step : trace_.steps) shortest = std::min(shortest, step.end - step.begin);
    const Time wanted = shortest > 0 ? kNarrowest * (end_ / 1000 + 1) / std::max<Time>(shortest / 1000, 1) : kWidest;
    width_ = std::clamp<Place>(wanted, 5'000, kWidest);
  }

  Place x_of(Time time) const {
    return end_ == 0 ? kLeft : kLeft + time / 100 * width_ / std::max<Time>(end_ / 100, 1);
  }
  Place lane_top(std::int32_t rank, std::uint32_t lane) const {
    return kTop + rank * (lanes_ * (kBox + 20) + kGap) + lane * (kBox + 20);
  }
  Place rank_top(std::int32_t rank) const { return lane_top(rank, 0); }
  Place rank_height() const { return lanes_ * (kBox + 20) - 20; }
  Place axis_top() const { return rank_top(call_.shape.ranks - 1) + rank_height() + 220; }
  Place heading_width() const {
    const std::size_t heading = std::max(text_.title.size() * 4 / 3, text_.caption.size());
    return 2 * kMargin +
           static_cast<Place>(std::max(heading, what_boxes_are().size() + (spans_ ? 32 : 0))) * kLetter * 9 / 10;
  }

  static std::string label(Place x, Place y, const std::string& text, const std::string& style) {
    return fmt::format("<text x=\"{}\" y=\"{}\" {}>{}</text>\n", px(x), px(y), style, text);
  }

  /// In an all-to-all the chunk says who sends to whom: the colour is the sender's. Where tiles follow one another and
  /// a tile is one chunk, each tile has a colour.
  std::uint32_t color_index(std::uint32_t chunk, std::uint32_t pass) const {
    const Extent extent = algorithm_.extent(call_.shape);
    if (exchanges_) return chunk / (static_cast<std::uint32_t>(call_.shape.ranks) * extent.parts);
    const std::uint32_t chunks = std::max({extent.input_blocks, extent.output_blocks, 1u}) * extent.parts;
    return chunk + pass * chunks;
  }
  Color color_of(std::uint32_t index) const {
    if (barrier_) return {200, 205, 212};
    return colors_ <= kFewColors.size() ? kFewColors[index] : hue(index, colors_);
  }

  std::string name_of(const SimulatedStep& step) const {
    if (barrier_) return "";
    const Extent extent = algorithm_.extent(call_.shape);
    std::string name = step.step.has(kReduce) ? "+" : "";
    if (exchanges_) {
      const std::uint32_t pair = step.step.chunk / extent.parts;
      const auto ranks = static_cast<std::uint32_t>(call_.shape.ranks);
      name += fmt::format("{}\u2192{}", pair / ranks, pair % ranks);
    } else {
      name += std::to_string(color_index(step.step.chunk, step.pass));
    }
    if (step.step.span.count > 1) name += fmt::format("\u00d7{}", static_cast<std::uint32_t>(step.step.span.count));
    return name;
  }

  /// Draws a band as the background of each host's ranks.
  std::string hosts() const {
    const HostMap* const map = call_.shape.hosts;
    if (map == nullptr || map->hosts == 1) return "";
    std::string out;
    for (std::int32_t rank = 0; rank < call_.shape.ranks; ++rank) {
      const std::int32_t host = map->host_of(rank);
      out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", px(60),
                         px(rank_top(rank) - kGap / 2), px(kLeft + width_ + 60), px(rank_height() + 20 + kGap),
                         host % 2 == 0 ? "#eef2f8" : "#f8f3ea");
      if (map->index_of(rank) == 0) {
        out += label(90, rank_top(rank) - 20, fmt::format("host {}", host), "font-size=\"9\" fill=\"#777777\"");
      }
    }
    return out;
  }

  std::string rows() const {
    std::string out;
    for (std::int32_t rank = 0; rank < call_.shape.ranks; ++rank) {
      const Place middle = rank_top(rank) + rank_height() / 2;
      const bool root = is_rooted(algorithm_.collective) && rank == call_.shape.root;
      out += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#cccccc\"/>\n", px(kLeft), px(middle),
                         px(kLeft + width_), px(middle));
      out += label(kLeft - 80, middle + 40, fmt::format("rank {}", rank),
                   root ? "text-anchor=\"end\" font-weight=\"bold\"" : "text-anchor=\"end\"");
    }
    return out;
  }

  std::string boxes() const {
    std::string out;
    for (const SimulatedStep& step : trace_.steps) {
      const Color color = color_of(barrier_ ? 0 : color_index(step.step.chunk, step.pass));
      const Place x = x_of(step.begin);
      const Place width = std::max<Place>(x_of(step.end) - x, 10);
      const Place y = lane_top(step.rank, step.lane);
      out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\" fill=\"{}\" stroke=\"{}\"{}/>\n",
                         px(x), px(y), px(width), px(kBox), text_of(color), darker(color),
                         step.step.has(kReduce) ? " stroke-width=\"1.6\"" : "");
      const std::string name = name_of(step);
      const auto letters = static_cast<Place>(std::count_if(
          name.begin(), name.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
      const bool fits = letters * kLetter <= width;
      const bool fits_small = letters * kLetter * 8 / 11 <= width + 20;
      if (name.empty() || !fits_small) continue;
      out += label(x + width / 2, y + kBox / 2 + (fits ? 40 : 30), name,
                   fits ? "text-anchor=\"middle\"" : "text-anchor=\"middle\" font-size=\"8\"");
    }
    return out;
  }

  /// When each message is consumed: links are ordered, so the k-th message of a link meets its k-th receive.
  using LinkKey = std::tuple<std::int32_t, std::int32_t, std::uint32_t, bool>;
  std::map<LinkKey, std::vector<Time>> receipts() const {
    std::map<LinkKey, std::vector<Time>> times;
    for (const SimulatedStep& step : trace_.steps) {
      if (!step.step.has(kRecv)) continue;
      Shape shape = call_.shape;
      shape.rank = step.rank;
      const bool one = step.step.recv_from == PeerSet::kOne;
      const PeerList peers = one ? PeerList{&step.step.recv_peer, 1} : senders_of(shape, step.step);
      for (std::int32_t i = 0; i < peers.count; ++i)
        if (peers[i] != step.rank)
          times[{peers[i], step.rank, step.lane, step.step.is(kMulticastRecv)}].push_back(step.begin);
    }
    return times;
  }

  std::string arrows() const {
    const auto times = receipts();
    std::map<LinkKey, std::size_t> next;
    std::string out;
    for (const SimulatedMessage& message : trace_.messages) {
      const LinkKey link{message.from, message.to, message.lane, message.multicast};
      const Time received = times.at(link)[next[link]++];
      const Color color = barrier_ ? Color{160, 160, 160} : color_of(color_index(message.chunk, message.pass));
      out += arrow(message, received, darker(color));
    }
    return out;
  }

  std::string arrow(const SimulatedMessage& message, Time received, const std::string& color) const {
    const bool down = message.to > message.from;
    const Place x1 = x_of(message.sent);
    const Place x2 = x_of(received);
    const Place y1 = lane_top(message.from, message.lane) + (down ? kBox : 0);
    const Place y2 = lane_top(message.to, message.lane) + (down ? 0 : kBox);
    const Place tip = down ? -50 : 50;
    return fmt::format(
        "<path d=\"M{0} {1} L{2} {3}\" stroke=\"{4}\" fill=\"none\" stroke-opacity=\"0.75\"/>"
        "<path d=\"M{2} {3} l{5} {6} l{7} 0 z\" fill=\"{4}\"/>\n",
        px(x1), px(y1), px(x2), px(y2), color, "-2.5", tip < 0 ? "-5.0" : "5.0", "5.0");
  }

  std::string axis() const {
    const Place y = axis_top();
    std::string out = fmt::format("<line x1=\"{0}\" y1=\"{2}\" x2=\"{1}\" y2=\"{2}\" stroke=\"#444444\"/>\n", px(kLeft),
                                  px(kLeft + width_), px(y));
    if (!text_.true_times) return out + label(kLeft + width_, y + 150, "time", "text-anchor=\"end\" fill=\"#444444\"");
    // 1, 2 or 5 times a power of ten, at most ten of them.
    Time unit = 1;
    for (int i = 0; end_ / unit > 10; ++i) unit = i % 3 == 1 ? unit / 2 * 5 : unit * 2;
    const bool millis = unit >= 1'000'000'000;
    const bool micros = !millis && end_ >= 1'000'000;
    const double scale = millis ? 1e9 : micros ? 1e6 : 1e3;
    for (Time t = 0; t <= end_; t += unit) {
      out += fmt::format("<line x1=\"{0}\" y1=\"{1}\" x2=\"{0}\" y2=\"{2}\" stroke=\"#444444\"/>\n", px(x_of(t)), px(y),
                         px(y + 40));
      out += label(x_of(t), y + 160, fmt::format("{:g}", static_cast<double>(t) / scale), "text-anchor=\"middle\"");
    }
    return out + label(kLeft + width_ + 40, y + 40, millis ? "ms" : micros ? "\u00b5s" : "ns", "");
  }

  std::string what_boxes_are() const {
    if (barrier_) return "A box is a step; a barrier's messages have no data.";
    if (exchanges_) return "A box is a step, a\u2192b the block of rank a for rank b.";
    return "A box is a step on the chunk with that number; + : what arrives is reduced with the own data.";
  }

  std::string key() const {
    const Place y = axis_top() + 300;
    std::string out;
    Place x = kMargin;
    const auto entry = [&](const Color& color, const std::string& name, bool reduces) {
      out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"18\" height=\"14\" rx=\"2\" fill=\"{}\" stroke=\"{}\"{}/>\n",
                         px(x), px(y), text_of(color), darker(color), reduces ? " stroke-width=\"1.6\"" : "");
      out += label(x + 230, y + 110, name, "");
      x += 230 + static_cast<Place>(name.size()) * kLetter + 120;
    };
    if (!barrier_) {
      const char* what = exchanges_ ? "block of rank " : "chunk ";
      const auto shown = std::min(colors_, static_cast<std::uint32_t>(kKeyChunks));
      for (std::uint32_t i = 0; i < shown; ++i) entry(color_of(i), (i == 0 ? what : "") + std::to_string(i), false);
      if (shown < colors_) out += label(x, y + 110, fmt::format("... {} in all", colors_), "");
    }
    const Place legend = y + (barrier_ ? 110 : 320);
    out += label(kMargin, legend, what_boxes_are() + (spans_ ? " c\u00d7k: k chunks, c is the first." : ""),
                 "fill=\"#555555\"");
    out += label(kMargin, legend + 160, kArrows, "fill=\"#555555\"");
    return out;
  }

  const Algorithm& algorithm_;
  const SimulatedCall& call_;
  const Trace& trace_;
  const PictureText& text_;
  std::uint32_t lanes_ = 1;
  bool barrier_ = false;
  bool exchanges_ = false;
  bool spans_ = false;
  Time end_ = 0;
  std::uint32_t colors_ = 1;
  Place width_ = 0;
};

}  // namespace

std::string to_svg(const Algorithm& algorithm, const SimulatedCall& call, const Trace& trace, const PictureText& text) {
  return Picture(algorithm, call, trace, text).svg();
}

Network even_network(bool tcp) {
  Network network;
  Costs& costs = network.costs;
  costs = Costs{};
  costs.shm = LinkCosts{1'000'000, 0, 0, 0, 0, 0, 0};
  costs.tcp = LinkCosts{3'000'000, 0, 0, 0, 0, 0, 0};
  costs.step = 1'000'000;
  costs.call = costs.reduce_kib = costs.copy_kib = costs.handover = costs.memory_kib = 0;
  costs.cores = 1 << 20;
  network.tcp = tcp;
  return network;
}

}  // namespace tutti
