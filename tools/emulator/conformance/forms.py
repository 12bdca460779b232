"""The instruction forms that are recorded: those of our kernels and their neighbours.

A form is a piece of PTX that runs in the entry of entry.ptx: what it may read and write is told there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Form:
    """A piece of PTX. operands: the name of its operands' pool (operands.py). result: which words it leaves, a key of
    RESULT_WORDS."""

    operands: str
    result: str
    text: str


# Words of the record of 8 that every thread writes: %d0-3, both halves of %e, the predicate %q, %g.
RESULT_WORDS = {
    "w": [0],
    "2w": [0, 1],
    "4w": [0, 1, 2, 3],
    "q": [4, 5],
    "p": [6],
    "wp": [0, 6],
    "h": [7],
}

ROUNDINGS = ("rn", "rz", "rm", "rp")
FTZ = ("", ".ftz")


def _sources(letter: str, count: int) -> str:
    return ", ".join(f"%{letter}{i}" for i in range(count))


def _plain(operands: str, letter: str, names: list[str], sources: int) -> list[Form]:
    """Forms of registers of one width. letter: a (32 bits), w (64) or h (16)."""
    to, result = {"a": ("%d0", "w"), "w": ("%e", "q"), "h": ("%g", "h")}[letter]
    return [Form(operands, result, f"{name} {to}, {_sources(letter, sources)};") for name in names]


def _names(pattern: str, *parts) -> list[str]:
    return [pattern.format(*one) for one in product(*parts)]


def _holds(target: str, source: str) -> bool:
    """Whether an integer type has every value of another: such a conversion can't saturate."""
    wider = int(target[1:]) > int(source[1:])
    return target == source or (wider and (source[0] == "u" or target[0] == "s"))


def integer_forms() -> list[Form]:
    """Arithmetic, logic, shifts and bit fields."""
    forms = []
    for letter, bits in (("a", "32"), ("w", "64")):
        types = ("s" + bits, "u" + bits)
        both = ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max")
        forms += _plain("integers", letter, _names("{}.{}", both, types), 2)
        forms += _plain("integers", letter, _names("mad.lo.{}", types), 3)
        forms += _plain("integers", letter, _names("{}.s{}", ("neg", "abs"), (bits,)), 1)
        forms += _plain("integers", letter, _names("{}.b{}", ("and", "or", "xor"), (bits,)), 2)
        forms += _plain("integers", letter, [f"not.b{bits}", f"brev.b{bits}"], 1)
        to, result = ("%d0", "w") if letter == "a" else ("%e", "q")
        for name in (f"shl.b{bits}", f"shr.s{bits}", f"shr.u{bits}"):
            forms.append(Form("integers", result, f"{name} {to}, %{letter}0, %a1;"))
            forms.append(Form("fields", result, f"{name} {to}, %{letter}0, %a1;"))
        for name in (f"clz.b{bits}", f"popc.b{bits}", f"bfind.u{bits}", f"bfind.s{bits}"):
            forms.append(Form("integers", "w", f"{name} %d0, %{letter}0;"))
        for name in (f"bfe.u{bits}", f"bfe.s{bits}"):
            forms.append(Form("fields", result, f"{name} {to}, %{letter}0, %a1, %a2;"))
        forms.append(Form("fields", result, f"bfi.b{bits} {to}, %{letter}0, %{letter}3, %a1, %a2;"))
    forms += _plain("integers", "a", ["add.sat.s32", "sub.sat.s32"], 2)
    forms += _plain("integers", "a", ["mad.hi.s32", "mad.hi.u32", "prmt.b32"], 3)
    forms += [Form("integers", "w", f"lop3.b32 %d0, %a0, %a1, %a2, {table};") for table in (0x96, 0xE8, 0xCA, 0x1B)]
    funnels = _names("shf.{}.{}.b32", "lr", ("wrap", "clamp"))
    forms += [Form("fields", "w", f"{name} %d0, %a0, %a3, %a1;") for name in funnels]
    forms += [Form("integers", "q", f"mul.wide.{t} %e, %a0, %a1;") for t in ("s32", "u32")]
    forms += [Form("integers", "q", f"mad.wide.{t} %e, %a0, %a1, %w2;") for t in ("s32", "u32")]
    forms += [Form("integers", "w", f"mul.wide.{t} %d0, %h0, %h1;") for t in ("s16", "u16")]
    forms += _plain("integers", "h", _names("{}.{}", ("add", "sub", "mul.lo", "min", "max"), ("s16", "u16")), 2)
    forms += _plain("integers", "h", ["and.b16", "or.b16", "xor.b16"], 2) + _plain("integers", "h", ["not.b16"], 1)
    forms += [Form("fields", "h", f"{name} %g, %h0, %a1;") for name in ("shl.b16", "shr.u16", "shr.s16")]
    return forms


def compare_forms() -> list[Form]:
    """Comparisons, selections, predicates."""
    forms = []
    for letter, types in (("a", ("s32", "u32")), ("w", ("s64", "u64")), ("h", ("s16", "u16"))):
        for name in _names("setp.{}.{}", ("lt", "le", "gt", "ge", "eq", "ne"), types):
            forms.append(Form("integers", "p", f"{name} %q, %{letter}0, %{letter}1;"))
    for letter, bits in (("a", "32"), ("w", "64"), ("h", "16")):
        for name in ("eq", "ne"):
            forms.append(Form("integers", "p", f"setp.{name}.b{bits} %q, %{letter}0, %{letter}1;"))
    ordered = ("lt", "le", "gt", "ge", "eq", "ne", "ltu", "leu", "gtu", "geu", "equ", "neu", "num", "nan")
    forms += [Form("floats", "p", f"{name} %q, %a0, %a1;") for name in _names("setp.{}{}.f32", ordered, FTZ)]
    for combine in ("and", "or", "xor"):
        forms.append(Form("integers", "p", f"setp.lt.{combine}.s32 %q, %a0, %a1, %c2;"))
    for name in ("b32", "s32", "u32", "f32"):
        forms.append(Form("integers", "w", f"selp.{name} %d0, %a0, %a1, %c2;"))
    for name in ("b64", "s64", "u64"):
        forms.append(Form("integers", "q", f"selp.{name} %e, %w0, %w1, %c2;"))
    forms.append(Form("integers", "h", "selp.b16 %g, %h0, %h1, %c2;"))
    forms += [Form("integers", "p", f"{name}.pred %q, %c0, %c1;") for name in ("and", "or", "xor")]
    forms += [Form("integers", "p", f"{name}.pred %q, %c0;") for name in ("not", "mov")]
    return forms


def move_forms() -> list[Form]:
    """Moves, and registers taken apart and put together."""
    forms = _plain("integers", "a", ["mov.b32", "mov.u32", "mov.s32", "mov.f32"], 1)
    forms += _plain("integers", "w", ["mov.b64", "mov.u64", "mov.s64"], 1)
    forms += _plain("integers", "h", ["mov.b16", "mov.u16"], 1)
    forms.append(Form("integers", "w", "mov.b32 %d0, {%h1, %h0};"))
    halves = "cvt.u32.u16 %d0, %h3; mul.wide.u16 %d1, %h2, 257; xor.b32 %d0, %d0, %d1;"
    forms.append(Form("integers", "w", "mov.b32 {%h2, %h3}, %a0; " + halves))
    forms.append(Form("integers", "q", "mov.b64 %e, {%a1, %a0};"))
    forms.append(Form("integers", "2w", "mov.b64 {%d1, %d0}, %w0;"))
    return forms


def convert_forms() -> list[Form]:
    """Conversions between types."""
    forms = []
    letters = {"16": "h", "32": "a", "64": "w"}
    to = {"16": ("%g", "h"), "32": ("%d0", "w"), "64": ("%e", "q")}
    for target, source in product(("u16", "s16", "u32", "s32", "u64", "s64"), repeat=2):
        register, result = to[target[1:]]
        if target[1:] != source[1:]:
            forms.append(Form("integers", result, f"cvt.{target}.{source} {register}, %{letters[source[1:]]}0;"))
        if not _holds(target, source):
            forms.append(Form("integers", result, f"cvt.sat.{target}.{source} {register}, %{letters[source[1:]]}0;"))
    for narrow in ("u8", "s8"):
        forms.append(Form("integers", "w", f"cvt.{narrow[0]}32.{narrow} %d0, %a0;"))
        forms.append(Form("integers", "w", f"cvt.{narrow}.{narrow[0]}32 %d0, %a0;"))
        forms.append(Form("integers", "w", f"cvt.sat.{narrow}.s32 %d0, %a0;"))
    for target, rounding, ftz in product(("s32", "u32", "s64", "u64"), ("rni", "rzi", "rmi", "rpi"), FTZ):
        register, result = to[target[1:]]
        forms.append(Form("floats", result, f"cvt.{rounding}{ftz}.{target}.f32 {register}, %a0;"))
    for source, rounding in product(("s32", "u32", "s64", "u64"), ROUNDINGS):
        forms.append(Form("integers", "w", f"cvt.{rounding}.f32.{source} %d0, %{letters[source[1:]]}0;"))
    for rounding, more in product(("rni", "rzi", "rmi", "rpi"), ("", ".ftz", ".sat")):
        forms.append(Form("floats", "w", f"cvt.{rounding}{more}.f32.f32 %d0, %a0;"))
    forms += [Form("floats", "w", f"cvt{more}.f32.f32 %d0, %a0;") for more in (".ftz", ".sat", ".ftz.sat")]
    for small in ("f16", "bf16"):
        forms.append(Form("halves", "w", f"cvt.f32.{small} %d0, %h0;"))
        for rounding, relu in product(("rn", "rz"), ("", ".relu")):
            forms.append(Form("floats", "h", f"cvt.{rounding}{relu}.{small}.f32 %g, %a0;"))
            forms.append(Form("floats", "w", f"cvt.{rounding}{relu}.{small}x2.f32 %d0, %a0, %a1;"))
    forms.append(Form("halves", "w", "cvt.ftz.f32.f16 %d0, %h0;"))
    forms.append(Form("integers", "q", "cvta.to.global.u64 %e, %w0;"))
    return forms


def float_forms() -> list[Form]:
    """float32 arithmetic and the approximations."""
    forms = []
    for name, sources in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
        forms += _plain("floats", "a", _names(name + ".{}{}.f32", ROUNDINGS, FTZ), sources)
        forms += _plain("floats", "a", _names(name + ".rn{}.sat.f32", FTZ), sources)
        forms += _plain("near", "a", _names(name + ".{}.f32", ROUNDINGS), sources)
    forms += _plain("floats", "a", _names("{}{}{}.f32", ("min", "max"), FTZ, ("", ".NaN")), 2)
    forms += _plain("floats", "a", _names("{}{}.f32", ("neg", "abs"), FTZ), 1)
    forms += _plain("floats", "a", ["copysign.f32"], 2)
    for pool in ("floats", "near"):
        forms += _plain(pool, "a", _names("div.{}{}.f32", ("rn", "full", "approx"), FTZ), 2)
        forms += _plain(pool, "a", _names("{}.{}{}.f32", ("rcp", "sqrt"), ("rn", "approx"), FTZ), 1)
        forms += _plain(pool, "a", _names("{}.approx{}.f32", ("ex2", "lg2", "rsqrt"), FTZ), 1)
        forms += _plain(pool, "a", ["tanh.approx.f32"], 1)
    return forms


def half_forms() -> list[Form]:
    """Arithmetic on 16-bit floats, two a register or one."""
    forms = []
    for small in ("f16", "bf16"):
        ftz = FTZ if small == "f16" else ("",)
        sat = ("", ".sat") if small == "f16" else ("",)
        for letter, suffix in (("h", ""), ("a", "x2")):
            kind = small + suffix
            forms += _plain("halves", letter, _names("{}.rn{}{}." + kind, ("add", "sub", "mul"), ftz, sat), 2)
            forms += _plain("halves", letter, _names("fma.rn{}{}." + kind, ftz, (*sat, ".relu")), 3)
            forms += _plain("halves", letter, _names("{}{}{}." + kind, ("min", "max"), ftz, ("", ".NaN")), 2)
            forms += _plain("halves", letter, _names("{}." + kind, ("neg", "abs")), 1)
    return forms


def warp_forms() -> list[Form]:
    """What lanes of a warp tell each other."""
    forms = []
    for mode in ("up", "down", "bfly", "idx"):
        for bounds in (0x1F, 0x00, 0x1C1F, 0x181F, 0x1807, 0x1C00, 0x100A):
            forms.append(Form("fields", "wp", f"shfl.sync.{mode}.b32 %d0|%q, %a0, %a1, {bounds}, 0xffffffff;"))
            forms.append(Form("fields", "wp", f"shfl.sync.{mode}.b32 %d0|%q, %a0, 1, {bounds}, 0xffffffff;"))
        forms.append(Form("fields", "wp", f"shfl.sync.{mode}.b32 %d0|%q, %a0, 5, %a1, 0xffffffff;"))
    forms += [Form("votes", "p", f"vote.sync.{mode}.pred %q, %c0, 0xffffffff;") for mode in ("all", "any", "uni")]
    forms.append(Form("votes", "w", "vote.sync.ballot.b32 %d0, %c0, 0xffffffff;"))
    reductions = (*product(("add", "min", "max"), ("s32", "u32")), *product(("and", "or", "xor"), ("b32",)))
    forms += [Form("votes", "w", f"redux.sync.{name}.{t} %d0, %a1, 0xffffffff;") for name, t in reductions]
    forms.append(Form("votes", "w", "match.any.sync.b32 %d0, %a2, 0xffffffff;"))
    forms.append(Form("votes", "wp", "match.all.sync.b32 %d0|%q, %a2, 0xffffffff;"))
    forms.append(Form("votes", "wp", "elect.sync %d0|%q, 0xffffffff;"))
    return forms


def memory_forms() -> list[Form]:
    """Loads, stores and atomic operations on 16 bytes of a thread's own, in shared and in global memory."""
    forms = []
    for space, at in (("shared", "%own"), ("global", "%out")):

        def add(result: str, text: str) -> None:
            """A form that begins with the operands in the thread's bytes. AT: their address. SPACE: its space."""
            put = f"st.{space}.v4.u32 [{at}], {{%a0, %a1, %a2, %a3}}; "
            forms.append(Form("integers", result, put + text.replace("SPACE", space).replace("AT", at)))

        for kind in ("u8", "s8", "u16", "s16", "u32", "s32", "b32", "f32"):
            add("w", f"ld.SPACE.{kind} %d0, [AT+4];")
            add("w", f"st.SPACE.{kind} [AT+4], %a4; ld.SPACE.u32 %d0, [AT+4];")
        for kind in ("u32", "s32", "u64", "b64"):
            add("q", f"ld.SPACE.{kind} %e, [AT+8];")
        add("4w", "st.SPACE.u64 [AT+8], %w0; ld.SPACE.v4.u32 {%d0, %d1, %d2, %d3}, [AT];")
        for kind in ("u32", "f32"):
            all_four = f"ld.SPACE.v4.{kind} {{%d0, %d1, %d2, %d3}}, [AT];"
            add("4w", f"st.SPACE.v2.{kind} [AT+8], {{%a4, %a5}}; {all_four}")
            add("2w", f"ld.SPACE.v2.{kind} {{%d0, %d1}}, [AT+8];")
        operations = [*product(("add", "min", "max"), ("s32", "u32"))]
        operations += [*product(("and", "or", "xor", "exch"), ("b32",)), ("inc", "u32"), ("dec", "u32")]
        for name, kind in operations:
            add("2w", f"atom.SPACE.{name}.{kind} %d0, [AT], %a4; ld.SPACE.u32 %d1, [AT];")
            if name != "exch":
                add("w", f"red.SPACE.{name}.{kind} [AT], %a4; ld.SPACE.u32 %d0, [AT];")
        compared = "and.b32 %d2, %a4, 1; add.s32 %d2, %d2, %a0;"  # what is there, or one more
        add("2w", f"{compared} atom.SPACE.cas.b32 %d0, [AT], %d2, %a5; ld.SPACE.u32 %d1, [AT];")
        wide = (("add", "u64"), ("min", "s64"), ("max", "u64"), *product(("and", "or", "xor", "exch"), ("b64",)))
        for name, kind in wide:
            both = "ld.SPACE.v2.u32 {%d0, %d1}, [AT+8]; mov.b64 {%d2, %d3}, %e;"
            add("4w", f"atom.SPACE.{name}.{kind} %e, [AT+8], %w0; {both}")
    return forms


def matrix_forms() -> list[Form]:
    """Matrices between shared memory and registers, and copies that arrive later."""
    fill = "st.shared.v4.u32 [%own], {%a0, %a1, %a2, %a3};"
    together = "bar.warp.sync 0xffffffff;"
    load = "ld.shared.v4.u32 {%d0, %d1, %d2, %d3}, [%own];"
    forms = []
    for count, trans in product((1, 2, 4), ("", ".trans")):
        registers = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
        sources = "{" + ", ".join(f"%a{i}" for i in range(count)) + "}"
        shape = f"sync.aligned.m8n8.x{count}{trans}.shared.b16"
        result = {1: "w", 2: "2w", 4: "4w"}[count]
        forms.append(Form("integers", result, f"{fill} {together} ldmatrix.{shape} {registers}, [%own];"))
        forms.append(Form("integers", "4w", f"{fill} {together} stmatrix.{shape} [%own], {sources}; {together} {load}"))
    forms.append(Form("integers", "w", "movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;"))
    done = f"cp.async.commit_group; cp.async.wait_group 0; {load}"
    for kind, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        copy = f"cp.async.{kind}.shared.global [%own], [%in], {size}"
        forms.append(Form("integers", "4w", f"{fill} {copy}; {done}"))
        # How many bytes are read: 0 to size.
        forms.append(Form("integers", "4w", f"{fill} rem.u32 %d0, %a0, {size + 1}; {copy}, %d0; {done}"))
    return forms


def mma_forms() -> list[Form]:
    """Products of matrices, on operands that show how the sum is formed."""
    forms = []
    for small in ("bf16", "f16"):
        for pool in ("plain", "spread", "cancel", "tiny", "special"):
            forms.append(
                Form(
                    f"mma_{pool}_{small}",
                    "4w",
                    f"mma.sync.aligned.m16n8k16.row.col.f32.{small}.{small}.f32 {{%d0, %d1, %d2, %d3}}, "
                    "{%a0, %a1, %a2, %a3}, {%a4, %a5}, {%a8, %a9, %a10, %a11};",
                )
            )
    return forms


def all_forms() -> list[Form]:
    """Every form, in the order of the recorded vectors."""
    groups = (integer_forms, compare_forms, move_forms, convert_forms, float_forms, half_forms, warp_forms,
              memory_forms, matrix_forms, mma_forms)  # fmt: skip
    return [form for group in groups for form in group()]


def entry(template: str, form: Form, name: str) -> str:
    """The text of an entry that runs a form. template: entry.ptx."""
    return template.replace("@NAME@", name).replace("@FORM@", form.text)
