#include "exec/forms.h"

#include <unordered_map>

namespace stratum::emulator {
namespace {

using Table = std::unordered_multimap<std::string_view, const Form*>;

Table make_table() {
  Table table;
  const auto add = [&](std::initializer_list<FormList> lists) {
    for (const FormList& list : lists)
      for (const Form& form : list) table.emplace(form.name, &form);
  };
  add({control_forms(), shuffle_forms(), vote_forms(), async_copy_forms(), atomic_forms(), mbarrier_forms(),
       tensor_copy_forms(), warpgroup_forms()});
#ifdef STRATUM_EMULATOR_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    using namespace avx2;
    add({compare_forms(), convert_forms(), float_forms(), integer_forms(), matrix_forms(), memory_forms(), mma_forms(),
         move_forms(), pair_forms(), wgmma_forms()});
    return table;
  }
#endif
  using namespace any_x86;
  add({compare_forms(), convert_forms(), float_forms(), integer_forms(), matrix_forms(), memory_forms(), mma_forms(),
       move_forms(), pair_forms(), wgmma_forms()});
  return table;
}

}  // namespace

std::vector<const Form*> forms_named(std::string_view name) {
  static const Table table = make_table();
  std::vector<const Form*> found;
  for (auto [form, end] = table.equal_range(name); form != end; ++form) found.push_back(form->second);
  return found;
}

}  // namespace stratum::emulator
