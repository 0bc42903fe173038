"""The meaning of PTX instructions in C++. What an instruction does is said here or by a function of machine.h; one that
is not known is an error."""
import re

from ptx_operands import is_float, split_list, value_type
from ptx_text import SIZES, PtxError

INTEGERS = {f"{sign}{bits}" for sign in "us" for bits in (16, 32, 64)}
BITS = {"b16", "b32", "b64"}
REALS = {"f32", "f64"}
COMPARISONS = {"eq": "{0} == {1}", "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}", "ge": "{0} >= {1}"}
# Of reals, unlike C++, ne is false if one is not a number.
REAL_COMPARISONS = COMPARISONS | {
    "ne": "{0} < {1} || {0} > {1}", "equ": "!({0} < {1} || {0} > {1})", "neu": "{0} != {1}", "ltu": "!({0} >= {1})",
    "leu": "!({0} > {1})", "gtu": "!({0} <= {1})", "geu": "!({0} < {1})", "num": "{0} == {0} && {1} == {1}",
    "nan": "{0} != {0} || {1} != {1}"}


def need(condition):
    if not condition:
        raise PtxError("a form of this instruction that is not known")


class Forms:
    """Translates instructions, one after the other, whose operands are of a scope."""

    def __init__(self, scope, functions):
        self.scope = scope
        self.functions = functions
        self.early = {}  # registers that loads fill before it is known whether they are needed, to the loads

    def translate(self, text):
        opcode, _, rest = text.partition(" ") if " " in text else (text, "", "")
        name, *how = opcode.split(".")
        how = [part for part in how if part != ""]
        operands = split_list(rest.strip()) if rest.strip() else []
        rule = getattr(self, "do_" + name.rstrip("_"), None)
        need(rule is not None)
        return rule(how, operands)

    def result(self, kind, operands, expression):
        """For instructions whose operands and result are of one type; {0} and so on are the operands."""
        values = [self.scope.read(one, kind) for one in operands[1:]]
        need(len(values) == 1 + max(map(int, re.findall(r"\{(\d)\}", expression))))
        return self.scope.write(operands[0], kind, expression.format(*values))

    # Arithmetic. Sums, differences and low products are the same with and without signs.
    def arithmetic(self, how, operands, sign, function):
        kind = how[-1]
        if kind in REALS:
            need(how[:-1] == ["rn"])
            return self.result(kind, operands, f"number({{0}} {sign} {{1}})")
        need(how[:-1] == (["lo"] if function == "mul" else []) and kind in INTEGERS)
        plain = f"b{kind[1:]}"
        if kind[1:] == "16":
            return self.result(plain, operands, f"u32({{0}}) {sign} u32({{1}})")
        return self.result(plain, operands, f"{{0}} {sign} {{1}}")

    def do_add(self, how, operands):
        return self.arithmetic(how, operands, "+", "add")

    def do_sub(self, how, operands):
        return self.arithmetic(how, operands, "-", "sub")

    def do_mul(self, how, operands):
        if how[0] != "wide":
            return self.arithmetic(how, operands, "*", "mul")
        kind = how[1]
        need(kind in ("u16", "u32", "s32"))
        wide = f"{kind[0]}{2 * int(kind[1:])}"
        left, right = (self.scope.read(one, kind) for one in operands[1:])
        return self.scope.write(operands[0], wide, f"{wide}({left}) * {wide}({right})")

    def do_mad(self, how, operands):
        need(how[0] == "lo" and how[1] in ("s32", "u32", "s64", "u64") and len(how) == 2)
        return self.result(f"b{how[1][1:]}", operands, "{0} * {1} + {2}")

    def do_fma(self, how, operands):
        need(how == ["rn", "f32"])
        return self.result("f32", operands, "number(std::fma({0}, {1}, {2}))")

    def do_div(self, how, operands):
        if how[-1] in REALS:
            return self.arithmetic(how, operands, "/", "div")
        need(len(how) == 1 and how[0] in INTEGERS)
        return self.result(how[0], operands, "t.divide({0}, {1})")

    def do_rem(self, how, operands):
        need(len(how) == 1 and how[0] in INTEGERS)
        return self.result(how[0], operands, "t.remainder({0}, {1})")

    def do_rcp(self, how, operands):
        need(how in (["rn", "f32"], ["rn", "f64"]))
        return self.result(how[1], operands, "number(1 / {0})")

    def extreme(self, how, operands, function):
        need(len(how) == 1)
        if how[0] in ("s16x2", "u16x2"):
            return self.result("b32", operands, f"{function}_fields<{how[0][:3]}>({{0}}, {{1}})")
        need(how[0] in INTEGERS)
        return self.result(how[0], operands, f"std::{function}<{how[0]}>({{0}}, {{1}})")

    def do_min(self, how, operands):
        return self.extreme(how, operands, "min")

    def do_max(self, how, operands):
        return self.extreme(how, operands, "max")

    def do_neg(self, how, operands):
        if how == ["f32"]:
            return self.result("b32", operands, "{0} ^ 0x80000000u")
        need(len(how) == 1 and how[0] in INTEGERS)
        return self.result(f"b{how[0][1:]}", operands, "0 - {0}")

    def do_abs(self, how, operands):
        need(how == ["f32"])
        return self.result("b32", operands, "{0} & 0x7fffffffu")

    # Bits.
    def logic(self, how, operands, sign):
        need(len(how) == 1 and (how[0] in BITS or how[0] == "pred"))
        return self.result(how[0], operands, f"{{0}} {sign} {{1}}")

    def do_and(self, how, operands):
        return self.logic(how, operands, "&")

    def do_or(self, how, operands):
        return self.logic(how, operands, "|")

    def do_xor(self, how, operands):
        return self.logic(how, operands, "^")

    def do_not(self, how, operands):
        need(len(how) == 1 and (how[0] in BITS or how[0] == "pred"))
        return self.result(how[0], operands, "!{0}" if how[0] == "pred" else "~{0}")

    def do_shl(self, how, operands):
        need(len(how) == 1 and how[0] in BITS)
        return self.shift(how[0], operands, "shift_left")

    def do_shr(self, how, operands):
        need(len(how) == 1 and how[0] in INTEGERS | BITS)
        return self.shift(how[0], operands, "shift_right")

    def shift(self, kind, operands, function):
        value, by = self.scope.read(operands[1], kind), self.scope.read(operands[2], "u32")
        return self.scope.write(operands[0], kind, f"{function}({value}, {by})")

    def do_clz(self, how, operands):
        need(how == ["b32"])
        return self.result("b32", operands, "u32(std::countl_zero({0}))")

    def do_lop3(self, how, operands):
        need(how == ["b32"])
        table = int(operands.pop(), 0)
        return self.result("b32", operands, f"any_logic<{table}>({{0}}, {{1}}, {{2}})")

    def do_prmt(self, how, operands):
        need(how == ["b32"])
        return self.result("b32", operands, "permute({0}, {1}, {2})")

    def do_bfi(self, how, operands):
        need(how in (["b32"], ["b64"]))
        values = [self.scope.read(one, how[0]) for one in operands[1:3]]
        values += [self.scope.read(one, "u32") for one in operands[3:]]
        return self.scope.write(operands[0], how[0], f"insert({', '.join(values)})")

    # Predicates and moves.
    def do_setp(self, how, operands):
        need(len(how) == 2 and "|" not in operands[0])
        compare, kind = how
        if kind in REALS:
            form = REAL_COMPARISONS.get(compare)
        else:
            need(kind in INTEGERS or compare in ("eq", "ne") and kind in BITS)
            form = (COMPARISONS | {"ne": "{0} != {1}"}).get(compare)
        need(form is not None)
        left, right = (self.scope.read(one, kind) for one in operands[1:])
        return self.scope.write(operands[0], "pred", form.format(left, right))

    def do_selp(self, how, operands):
        need(len(how) == 1 and how[0] in INTEGERS | BITS | REALS)
        *values, chooses = operands[1:]
        left, right = (self.scope.read(one, how[0]) for one in values)
        chosen = self.scope.read(chooses, "pred")
        loads = [f"if ({'!' * i}{chosen}) {self.early[one]}; " for i, one in enumerate(values) if one in self.early]
        return "".join(loads) + self.scope.write(operands[0], how[0], f"{chosen} ? {left} : {right}")

    def do_mov(self, how, operands):
        need(len(how) == 1 and (how[0] in BITS | INTEGERS | REALS or how[0] == "pred"))
        kind, (to, what) = how[0], operands
        if to.startswith("{"):
            return self.unpack(kind, split_list(to[1:-1]), what)
        if what.startswith("{"):
            return self.pack(kind, to, split_list(what[1:-1]))
        if kind == "pred" and what in ("-1", "0", "1"):
            return self.scope.write(to, kind, "true" if what != "0" else "false")
        return self.scope.write(to, kind, self.scope.read(what, kind))

    def unpack(self, kind, parts, what):
        width = 8 * SIZES[kind] // len(parts)
        whole = self.scope.read(what, kind)
        return " ".join(self.scope.write(part, f"b{width}", f"u{width}({whole} >> {i * width})")
                        for i, part in enumerate(parts))

    def pack(self, kind, to, parts):
        width = 8 * SIZES[kind] // len(parts)
        wide = value_type(kind)
        values = [f"{wide}({self.scope.read(part, f'b{width}')}) << {i * width}" for i, part in enumerate(parts)]
        return self.scope.write(to, kind, " | ".join(values))

    # Conversions. The last two parts are the types of the result and of the operand.
    def do_cvt(self, how, operands):
        *mode, to, have = how
        packed = {("f16x2", "f32"): ["rn"], ("bf16x2", "f32"): ["rn"], ("e4m3x2", "f32"): ["rn", "satfinite"],
                  ("e5m2x2", "f32"): ["rn", "satfinite"]}
        if (to, have) in packed:
            need(mode == packed[to, have])
            high, low = (self.scope.read(one, "f32") for one in operands[1:])
            kind = "b32" if "16" in to else "b16"
            return self.scope.write(operands[0], kind, f"narrow_{to}({high}, {low})")
        if how in (["f32", "f16"], ["rn", "f16x2", "e4m3x2"]):
            source, result = ("b16", "f32") if to == "f32" else ("b16", "b32")
            return self.scope.write(operands[0], result, f"widen_{have}({self.scope.read(operands[1], source)})")
        value = self.scope.low_part(operands[1], have)
        if is_float(to) == is_float(have):
            need(mode == [] and not is_float(to) and {to, have} <= INTEGERS | {"u8", "s8"})
            return self.scope.write_extended(operands[0], to, f"{value_type(to)}({value})")
        need(mode == (["rn"] if is_float(to) else ["rzi"]) and {to, have} <= INTEGERS | REALS)
        function = f"static_cast<{to}>({value})" if is_float(to) else f"truncate<{to}>({value})"
        return self.scope.write(operands[0], to, function)

    def do_cvta(self, how, operands):
        if how == ["shared", "u64"]:
            return self.scope.write(operands[0], "u64", f"t.from_shared({self.scope.read(operands[1], 'u64')})")
        if how == ["to", "shared", "u64"]:
            return self.scope.write(operands[0], "u64", f"t.to_shared({self.scope.read(operands[1], 'u64')})")
        need(how[-1] == "u64" and how[:-1] in (["local"], ["param"], ["to", "global"], ["to", "local"]))
        return self.scope.write(operands[0], "u64", self.scope.read(operands[1], "u64"))

    # Memory.
    def parts_of_access(self, how):
        """The state space, the order, the number of values and the type."""
        how = list(how)
        kind = how.pop()
        need(kind in SIZES and kind != "pred")
        count = int(how.pop()[1:]) if how and how[-1] in ("v2", "v4") else 1
        order = "plain"
        if how and how[0] in ("relaxed", "acquire", "release"):
            need(len(how) == 2 and how[1] in ("gpu", "sys"))
            order = ".".join(how)
            how = []
        need(len(how) <= 1 and (not how or how[0] in ("global", "shared", "local", "param")))
        return (how[0] if how else "generic"), order, count, kind

    def access(self, verb, how):
        """The function that makes the access, without the address, and what the access is."""
        space, order, count, kind = self.parts_of_access(how)
        if order == "plain":
            own = space in ("local", "param")
            name = f"{'own' if own else 't.' + space}_{verb}<{value_type(kind)}, {count}>"
        else:
            need(space == "generic" and kind in ("u64", "b64") and (count == 1 or order.startswith("relaxed")))
            name = f"t.{order.split('.')[0]}_{verb}<{count}>"
        return name, space, count, kind

    def do_ld(self, how, operands):
        need("release" not in how)
        name, space, count, kind = self.access("load", how)
        to = split_list(operands[0][1:-1]) if operands[0].startswith("{") else [operands[0]]
        need(len(to) == count)
        call = f"{name}({self.scope.address(operands[1], space)})"
        if to[0] in self.early:
            self.early[to[0]] = call
            call = call.replace("shared_load", "shared_peek")
        if count == 1:
            return self.scope.write_extended(to[0], kind, call + "[0]")
        writes = [self.scope.write_extended(one, kind, f"got[{i}]") for i, one in enumerate(to)]
        return f"{{ const auto got = {call}; {' '.join(writes)} }}"

    def do_st(self, how, operands):
        need("acquire" not in how)
        name, space, count, kind = self.access("store", how)
        values = split_list(operands[1][1:-1]) if operands[1].startswith("{") else [operands[1]]
        need(len(values) == count)
        given = ", ".join(self.scope.low_part(one, kind) for one in values)
        return f"{name}({self.scope.address(operands[0], space)}, {{{{{given}}}}});"

    def do_multimem(self, how, operands):
        need(how[0] == "st" and how[1] in ("relaxed", "release") and how[2:] == ["sys", "u64"])
        where, value = self.scope.address(operands[0], "generic"), self.scope.read(operands[1], "u64")
        return f"t.{how[1]}_store<1>({where}, {{{{{value}}}}});"

    def do_fence(self, how, operands):
        need(how == ["proxy", "alias"] and not operands)
        return "t.alias_fence();"

    # Barriers and control.
    def do_bar(self, how, operands):
        if how == ["sync"]:
            need(operands == ["0"])
            return "t.sync();"
        need(how == ["red", "or", "pred"] and operands[1] == "0" and len(operands) == 3)
        return self.scope.write(operands[0], "pred", f"t.any({self.scope.read(operands[2], 'pred')})")

    def do_bra(self, how, operands):
        need(how in ([], ["uni"]) and len(operands) == 1)
        return f"goto {operands[0].replace('$', '')};"

    def do_ret(self, how, operands):
        need(how == [] and not operands)
        return "return;"

    def do_call(self, how, operands):
        """What is returned comes first, and is passed last."""
        results = split_list(operands.pop(0)[1:-1]) if operands[0].startswith("(") else []
        need(how == ["uni"] and len(operands) == 2 and operands[0] in self.functions)
        given = split_list(operands[1].strip()[1:-1]) + results
        need(all(one in self.scope.memory for one in given))
        return f"k_{operands[0]}(t, {', '.join(self.scope.memory[one] for one in given)});"
