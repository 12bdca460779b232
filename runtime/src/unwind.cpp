// Lets the library run on systems older than the one it is built on.
//
// The unwinder of newer compilers, which is linked in, asks glibc's _dl_find_object (glibc 2.35) where a program
// counter's unwind tables are. This is the same answer from dl_iterate_phdr, which every glibc has. It is not exported,
// so it serves this library's own exceptions alone.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>

// Defined where glibc has the function, and so the compiler's unwinder may want it.
#ifdef DLFO_STRUCT_HAS_EH_DBASE

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

int visit(dl_phdr_info* info, size_t, void* data) {
  const auto& search = *static_cast<Search*>(data);
  bool inside = false;
  void* eh_frame = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && search.address - start < header.p_memsz) {
      inside = true;
      search.found->dlfo_map_start = reinterpret_cast<void*>(start);
      search.found->dlfo_map_end = reinterpret_cast<void*>(start + header.p_memsz);
    } else if (header.p_type == PT_GNU_EH_FRAME) {
      eh_frame = reinterpret_cast<void*>(start);
    }
  }
  if (!inside || eh_frame == nullptr) return 0;
  search.found->dlfo_eh_frame = eh_frame;
  return 1;
}

}  // namespace

extern "C" int _dl_find_object(void* address, dl_find_object* found) noexcept {
  *found = {};
  Search search{reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(visit, &search) == 1 ? 0 : -1;
}

#endif
