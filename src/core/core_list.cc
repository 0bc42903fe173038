#include "core/core_list.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace tutti {

bool parse_core_list(const std::string& text, std::vector<int>* cores) {
  const char* at = text.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (end == at) return false;
    if (*end == '-') {
      at = end + 1;
      last = std::strtol(at, &end, 10);
      if (end == at) return false;
    }
    if (first < 0 || last < first || last >= CPU_SETSIZE || (*end != '\0' && *end != ',')) return false;
    for (long core = first; core <= last; ++core) cores->push_back(static_cast<int>(core));
    at = *end == ',' ? end + 1 : end;
  }
  return true;
}

std::string core_list_text(std::span<const int> cores, std::size_t longest) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cores[i]);
    if (last != i) text += '-' + std::to_string(cores[last]);
    i = last + 1;
  }
  return text.size() <= longest ? text : std::string();
}

std::vector<int> usable_core_list() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

int cores_among(std::span<const std::string_view> lists, std::size_t own) {
  std::set<int> all;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (i != 0 && lists[i] == lists[i - 1]) continue;  // thousands of threads have one list
    std::vector<int> cores;
    if (parse_core_list(std::string(lists[i]), &cores)) all.insert(cores.begin(), cores.end());
  }
  std::vector<int> mine;
  if (!parse_core_list(std::string(lists[own]), &mine) || mine.empty()) return static_cast<int>(all.size());
  const auto alike = static_cast<std::size_t>(std::count(lists.begin(), lists.end(), lists[own]));
  return static_cast<int>(alike > mine.size() ? mine.size() : all.size());
}

}  // namespace tutti
