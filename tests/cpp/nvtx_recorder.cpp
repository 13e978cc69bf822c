// An NVTX injection library, as a profiler brings one: NVTX loads what NVTX_INJECTION64_PATH names. At exit it prints each
// range of the domain "ampcast" with how often it began and how often it ended, one a line: "nvtx NAME BEGUN ENDED".

#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

struct Count {
  int begun = 0;
  int ended = 0;
};

struct Recorder {
  std::map<std::string, Count> counts;
  std::vector<std::string> pushed;
  std::vector<std::string> started;

  ~Recorder() {
    for (const auto& [name, count] : counts) {
      std::printf("nvtx %s %d %d\n", name.c_str(), count.begun, count.ended);
    }
  }
} recorder;

int ampcast_domain = 0;

bool is_ampcast(nvtxDomainHandle_t domain) {
  return static_cast<void*>(domain) == &ampcast_domain;
}

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  return std::strcmp(name, "ampcast") == 0 ? reinterpret_cast<nvtxDomainHandle_t>(&ampcast_domain) : nullptr;
}

void begin(std::vector<std::string>& open, const nvtxEventAttributes_t* event) {
  ++recorder.counts[event->message.ascii].begun;
  open.emplace_back(event->message.ascii);
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  if (is_ampcast(domain)) {
    begin(recorder.pushed, event);
  }
  return 0;
}

int NVTX_API pop(nvtxDomainHandle_t domain) {
  if (is_ampcast(domain)) {
    ++recorder.counts[recorder.pushed.back()].ended;
    recorder.pushed.pop_back();
  }
  return 0;
}

nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  if (is_ampcast(domain)) {
    begin(recorder.started, event);
  }
  return recorder.started.size(); // the position after the range's name
}

void NVTX_API end(nvtxDomainHandle_t domain, nvtxRangeId_t range) {
  if (is_ampcast(domain)) {
    ++recorder.counts[recorder.started.at(range - 1)].ended;
  }
}

} // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
    return 0;
  }
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&create_domain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(&start);
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = reinterpret_cast<NvtxFunctionPointer>(&end);
  return 1;
}
