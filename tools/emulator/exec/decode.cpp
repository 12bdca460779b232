#include "exec/decode.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "exec/control.h"
#include "exec/forms.h"
#include "exec/register_file.h"

namespace stratum::emulator {
namespace {

using ptx::Kind;
using ptx::Operand;
using ptx::ParseError;

const std::map<std::string, Special> kSpecials = {
    {"%tid.x", Special::TidX},       {"%tid.y", Special::TidY},       {"%tid.z", Special::TidZ},
    {"%ntid.x", Special::NtidX},     {"%ntid.y", Special::NtidY},     {"%ntid.z", Special::NtidZ},
    {"%ctaid.x", Special::CtaidX},   {"%ctaid.y", Special::CtaidY},   {"%ctaid.z", Special::CtaidZ},
    {"%nctaid.x", Special::NctaidX}, {"%nctaid.y", Special::NctaidY}, {"%nctaid.z", Special::NctaidZ},
    {"%laneid", Special::Laneid},
};

constexpr uint64_t kMostSharedBytes = 1 << 24;  // far beyond any GPU's
constexpr uint32_t kMostCells = 1 << 16;        // that Step::cell can number

uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

class Decoder {
 public:
  Decoder(const ptx::Module& module, const ptx::Entry& entry) : module_(module), entry_(entry), file_(entry) {}

  Program program() {
    program_.name = entry_.name;
    for (const ptx::Parameter& one : entry_.parameters)
      program_.parameters.push_back({static_cast<uint32_t>(one.offset), static_cast<uint32_t>(one.bytes)});
    program_.parameter_bytes = static_cast<uint32_t>(entry_.parameter_bytes);
    place_variables();
    for (const ptx::Instruction& instruction : entry_.instructions) decode(instruction);
    // Lanes that run off the end return.
    ptx::Instruction last{
        .opcode = "ret", .guard = "", .line = program_.steps.empty() ? 0 : program_.steps.back().line};
    decode(last);
    const std::vector<uint32_t> points = reconvergence_points(flow_);
    for (size_t i = 0; i < points.size(); ++i) program_.steps[i].reconverge = points[i];
    file_.describe(program_);
    if (program_.cells > kMostCells) {
      throw ParseError(0, fmt::format("{} registers and constants, expected at most {}", program_.cells, kMostCells));
    }
    for (Step& step : program_.steps) {
      step.guard_cell = program_.cell_of(step.guard);
      for (size_t i = 0; i < step.operands; ++i) step.cell[i] = program_.cell_of(step.row[i]);
    }
    return std::move(program_);
  }

 private:
  // Static shared memory first; all dynamic variables begin where it ends.
  void place_variables() {
    uint64_t end = kSharedBase, dynamic_align = 1;
    const auto each_shared = [&](auto place) {
      for (const auto* variables : {&module_.variables, &entry_.variables})
        for (const ptx::Variable& variable : *variables)
          if (variable.space == "shared") place(variable);
    };
    each_shared([&](const ptx::Variable& variable) {
      if (variable.bytes == 0) {
        dynamic_align = std::max(dynamic_align, variable.align);
        return;
      }
      shared_[variable.name] = round_up(end, variable.align);
      end = shared_[variable.name] + variable.bytes;
    });
    end = round_up(end, dynamic_align);
    each_shared([&](const ptx::Variable& variable) {
      if (variable.bytes == 0) shared_[variable.name] = end;
    });
    if (end > kMostSharedBytes) throw ParseError(0, fmt::format("{} bytes of shared memory", end - kSharedBase));
    program_.static_shared_bytes = static_cast<uint32_t>(end - kSharedBase);
  }

  void decode(const ptx::Instruction& instruction) {
    line_ = instruction.line;
    const std::vector<const Form*> forms = forms_named(instruction.opcode);
    if (forms.empty()) throw ParseError(line_, "unknown instruction form '" + instruction.opcode + "'");
    std::string expected;
    for (const Form* form : forms) {
      if (fits(*form, instruction.operands)) {
        program_.steps.push_back(step(*form, instruction));
        return;
      }
      expected += std::string(expected.empty() ? "" : " or ") + form->operands;
    }
    throw ParseError(line_, fmt::format("the operands of '{}' don't fit, expected {}", instruction.opcode, expected));
  }

  // One operand of a form: a letter, a count before it for a vector; "w|p" is a vector with letters of its own, "2T" an
  // address with a vector of coordinates behind it.
  struct Pattern {
    std::string letters;
    bool vector, destination;
    bool tensor = false;

    const Operand& element(const Operand& operand, size_t i) const {
      if (tensor) return i == 0 ? operand : operand.elements[i - 1];
      return vector ? operand.elements[i] : operand;
    }
  };

  static std::vector<Pattern> patterns(const Form& form) {
    std::vector<Pattern> found;
    bool destination = true;
    for (const char* at = form.operands; *at; ++at) {
      if (*at == '=') {
        destination = false;
      } else if (*at >= '1' && *at <= '9') {
        char* letter = nullptr;
        const size_t count = std::strtoul(at, &letter, 10);
        at = letter;
        if (*letter == 'T') {
          found.push_back({'G' + std::string(count, 'w'), true, destination, true});
        } else {
          found.push_back({std::string(count, *letter), true, destination});
        }
      } else if (at[1] == '|') {
        found.push_back({{at[0], at[2]}, true, destination});
        at += 2;
      } else {
        found.push_back({{*at}, false, destination});
      }
    }
    return found;
  }

  bool fits(const Form& form, const std::vector<Operand>& operands) const {
    const std::vector<Pattern> wanted = patterns(form);
    if (wanted.size() != operands.size()) return false;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto one = [&](char letter, const Operand& operand) {
        const bool writable = operand.kind == Kind::Register || letter == '_';
        return fits(letter, operand) && (!wanted[i].destination || writable);
      };
      if (!wanted[i].vector) {
        if (!one(wanted[i].letters[0], operands[i])) return false;
        continue;
      }
      const size_t before = wanted[i].tensor;  // letters that aren't the vector's
      if (operands[i].kind != (wanted[i].tensor ? Kind::Address : Kind::Vector)) return false;
      if (operands[i].elements.size() + before != wanted[i].letters.size()) return false;
      for (size_t j = before; j < wanted[i].letters.size(); ++j)
        if (!one(wanted[i].letters[j], wanted[i].element(operands[i], j))) return false;
    }
    return true;
  }

  // Whether the operand can be read as what the letter says.
  bool fits(char letter, const Operand& operand) const {
    if (operand.negated) return false;
    switch (operand.kind) {
      case Kind::Register:
        return file_.letter_of(operand.name) == (letter == 'a' ? 'w' : letter);
      case Kind::Immediate:
        return letter == 'h' || letter == 'w' || letter == 'q' || letter == 'p' || letter == 'i' || letter == 'm';
      case Kind::Special:
        return letter == 'w';
      case Kind::Symbol:
        return operand.name == "_" ? letter == '_' : letter == 'w' || letter == 'q';
      case Kind::Label:
        return letter == 'L';
      case Kind::Address:
        return (letter == 'G' || letter == 'S' || letter == 'P') && operand.elements.empty();
      case Kind::Vector:
        return false;
    }
    return false;
  }

  Step step(const Form& form, const ptx::Instruction& instruction) {
    Step step{.run = form.run, .line = line_};
    if (!instruction.guard.empty()) {
      if (file_.letter_of(instruction.guard) != 'p') throw ParseError(line_, "the guard is not a predicate");
      step.guard = file_.of_register(instruction.guard);
      step.guard_flip = instruction.guard_negated ? ~uint32_t{0} : 0;
    }
    const std::vector<Pattern> wanted = patterns(form);
    size_t rows = 0;
    int addresses = 0, modifiers = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Operand& operand = instruction.operands[i];
      for (size_t j = 0; j < wanted[i].letters.size(); ++j) {
        const Operand& one = wanted[i].element(operand, j);
        if (wanted[i].letters[j] == 'a') {
          step.accumulators.push_back(file_.of_register(one.name));
          continue;
        }
        if (wanted[i].letters[j] == 'm') {
          step.modifiers[modifiers++] = small(one);
          continue;
        }
        place(wanted[i].letters[j], one, step, rows++, addresses);
        step.writes += wanted[i].destination;
      }
    }
    step.operands = static_cast<uint8_t>(rows);
    describe_data_flow(instruction.opcode, step);
    describe_flow(instruction, step);
    return step;
  }

  void place(char letter, const Operand& operand, Step& step, size_t index, int& addresses) {
    switch (letter) {
      case 'i':
        step.number = static_cast<uint32_t>(operand.bits);
        return;
      case '_':
        return;
      case 'L':
        step.target = label(operand.name);
        return;
      case 'p':
        step.row[index] =
            operand.kind == Kind::Immediate ? (operand.bits ? kTrue : kFalse) : file_.of_register(operand.name);
        return;
      case 'G':
      case 'S':
      case 'P':
        step.offset[addresses] = operand.offset;
        step.wide[addresses] = true;
        if (entry_.registers.contains(operand.name)) {
          const char width = file_.letter_of(operand.name);
          if (width != 'q' && (width != 'w' || letter == 'G')) throw ParseError(line_, "not a register for an address");
          step.wide[addresses] = width == 'q';
          step.row[index] = file_.of_register(operand.name);
        } else {
          step.row[index] = file_.of_constant(operand.name.empty() ? 0 : symbol(operand.name), true);
        }
        ++addresses;
        return;
      default:
        step.row[index] = value(letter, operand);
    }
  }

  uint32_t value(char letter, const Operand& operand) {
    const bool wide = letter == 'q';
    const auto constant = [&](uint64_t bits) { return file_.of_constant(wide ? bits : bits & 0xffffffff, wide); };
    switch (operand.kind) {
      case Kind::Immediate: {
        const int64_t number = static_cast<int64_t>(operand.bits);
        const int bits = wide ? 64 : letter == 'h' ? 16 : 32;
        if (!wide && (number < -(int64_t{1} << (bits - 1)) || number >> bits > 0)) {
          throw ParseError(line_, fmt::format("{} has more than {} bits", number, bits));
        }
        return constant(letter == 'h' ? operand.bits & 0xffff : operand.bits);
      }
      case Kind::Symbol:
        return constant(symbol(operand.name));
      case Kind::Special: {
        const auto found = kSpecials.find(operand.name);
        if (found == kSpecials.end()) throw ParseError(line_, "unknown special register '" + operand.name + "'");
        return file_.of_special(found->second);
      }
      default:
        return file_.of_register(operand.name);
    }
  }

  int8_t small(const Operand& operand) const {
    const int64_t number = static_cast<int64_t>(operand.bits);
    if (number < -1 || number > 1) throw ParseError(line_, fmt::format("expected -1, 0 or 1, got {}", number));
    return static_cast<int8_t>(number);
  }

  // The address of a parameter or of a shared variable, in its space.
  uint64_t symbol(const std::string& name) const {
    for (const ptx::Parameter& parameter : entry_.parameters)
      if (parameter.name == name) return parameter.offset;
    if (const auto found = shared_.find(name); found != shared_.end()) return found->second;
    throw ParseError(line_, "'" + name + "' is neither a parameter nor shared memory");
  }

  uint32_t label(const std::string& name) const {
    const auto found = entry_.labels.find(name);
    if (found == entry_.labels.end()) throw ParseError(line_, "no label '" + name + "'");
    return static_cast<uint32_t>(found->second);
  }

  static void describe_data_flow(std::string_view opcode, Step& step) {
    if (opcode.starts_with("mov.")) step.flow = DataFlow::Move;
    if (opcode.starts_with("selp.")) step.flow = DataFlow::Select;
    if (opcode.starts_with("ld.")) step.flow = DataFlow::Load;
    if (opcode.starts_with("st.")) step.flow = DataFlow::Store;
    if (opcode.starts_with("stmatrix.")) {
      step.flow = opcode.find(".trans") == opcode.npos ? DataFlow::StoreMatrix : DataFlow::StoreMatrixTransposed;
    }
    if (opcode.starts_with("ldmatrix.")) {
      step.flow = opcode.find(".trans") == opcode.npos ? DataFlow::LoadMatrix : DataFlow::LoadMatrixTransposed;
    }
    if (opcode.starts_with("atom.")) step.flow = DataFlow::Atomic;
    if (step.flow == DataFlow::Load || step.flow == DataFlow::Store || step.flow == DataFlow::Atomic) {
      const std::string_view bits = opcode.substr(opcode.find_last_not_of("0123456789") + 1);
      step.element_bytes = static_cast<uint8_t>(std::atoi(bits.data()) / 8);
    }
  }

  void describe_flow(const ptx::Instruction& instruction, const Step& step) {
    Flow flow;
    flow.branches = instruction.opcode.starts_with("bra");
    flow.returns = instruction.opcode == "ret" || instruction.opcode == "exit";
    flow.falls_through = !instruction.guard.empty() || !(flow.branches || flow.returns);
    flow.target = step.target;
    flow_.push_back(flow);
  }

  const ptx::Module& module_;
  const ptx::Entry& entry_;
  RegisterFile file_;
  std::map<std::string, uint64_t> shared_;
  std::vector<Flow> flow_;
  Program program_;
  int line_ = 0;
};

}  // namespace

Program decode(const ptx::Module& module, const ptx::Entry& entry) { return Decoder(module, entry).program(); }

}  // namespace stratum::emulator
