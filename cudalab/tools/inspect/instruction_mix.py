"""Counts the instructions that a thread executes, by kind, unit and opcode, and the bytes that it moves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from cudalab.tools.inspect.sass import Code, Instruction
from cudalab.tools.inspect.thread_path import Path

# Opcodes by kind, in the order of the table.
KINDS: dict[str, tuple[str, ...]] = {
    "global load": ("LDG", "LD", "UTMALDG", "UBLKCP"),
    "global store": ("STG", "ST", "UTMASTG"),
    "shared": ("LDS", "STS", "LDSM", "STSM", "STAS", "ATOMS", "LDGSTS"),
    "local": ("LDL", "STL"),
    "atomic": ("ATOM", "ATOMG", "RED", "REDG"),
    "special": ("MUFU",),
    "conversion": ("F2F", "F2I", "I2F", "F2FP", "FRND", "I2FP", "I2I", "F2IP", "UI2F", "UF2I", "UI2FP"),
    "fp32": (
        "FADD", "FMUL", "FFMA", "FADD2", "FMUL2", "FFMA2", "FFMA32I", "FMUL32I", "FADD32I", "FSWZADD", "UFADD", "UFMUL",
        "UFFMA",
    ),
    "fp32 compare": ("FSEL", "FSETP", "FSET", "FMNMX", "FMNMX3", "FCHK"),
    "fp16x2": ("HADD2", "HMUL2", "HFMA2", "HSETP2", "HSET2", "HMNMX2", "HADD2_32I", "HMUL2_32I", "HFMA2_32I"),
    "fp64": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
    "tensor": (
        "HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA", "UTCHMMA", "UTCQMMA",
    ),
    "shuffle": ("SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "CREDUX"),
    "barrier": (
        "BAR", "MEMBAR", "DEPBAR", "SYNCS", "ERRBAR", "LDGDEPBAR", "CCTL", "UCGABAR_ARV", "UCGABAR_WAIT", "ARRIVES",
        "FENCE",
    ),
    "branch": (
        "BRA", "BRX", "BRXU", "JMP", "JMX", "CALL", "RET", "EXIT", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "BPT", "KILL",
        "BMOV", "NANOSLEEP", "YIELD", "ENDCOLLECTIVE",
    ),
    "multiply": ("IMAD", "UIMAD", "IMUL", "IDP", "XMAD", "IMAD32I"),
    "move": (
        "MOV", "MOV32I", "UMOV", "R2UR", "S2R", "S2UR", "CS2R", "CS2UR", "LDC", "LDCU", "ULDC", "P2R", "R2P", "B2R",
    ),
    "integer": (
        "IADD", "IADD3", "IADD32I", "VIADD", "LEA", "LOP3", "LOP", "SHF", "SHL", "SHR", "ISETP", "SEL", "IMNMX",
        "VIADDMNMX", "VIMNMX3", "IABS", "PRMT", "PLOP3", "BMSK", "SGXT", "POPC", "FLO", "BREV", "ISCADD", "VABSDIFF",
        "VABSDIFF4", "UIADD3", "ULEA", "ULOP3", "USHF", "UISETP", "USEL", "UPRMT", "UPLOP3", "UFLO", "UPOPC", "USGXT",
        "UBMSK", "UBREV", "UIADD", "UIMNMX", "VIMNMX",
    ),
}  # fmt: skip
_KIND_OF = {root: kind for kind, roots in KINDS.items() for root in roots}
OTHER = "other"


@dataclass(frozen=True)
class Access:
    """Memory accesses of one operation and width by one thread."""

    operation: str  # LDG, STG, LDL, ...
    bytes: int
    count: float


@dataclass(frozen=True)
class Line:
    """A source line and its share of the executed instructions."""

    file: str
    number: int
    share: float


@dataclass(frozen=True)
class Mix:
    """Executed instructions of one thread."""

    total: int
    kinds: dict[str, int]  # by the names of KINDS
    pipes: dict[str, int]  # by the unit that executes them, see `pipe`
    opcodes: dict[str, int]  # without modifiers, most frequent first; MUFU with its function
    flops: int  # floating-point additions and multiplications, two in a multiply-add
    accesses: tuple[Access, ...]
    lines: tuple[Line, ...]  # largest share first

    def moved(self, *operations: str) -> int:
        """Bytes that the thread moves by these operations."""
        return int(sum(a.count * a.bytes for a in self.accesses if a.operation in operations))


def kind(instruction: Instruction) -> str:
    """The kind of an instruction. Arithmetic that only copies a value or makes a constant is a move."""
    constant = instruction.root == "HFMA2" and instruction.operands[1:3] == ("-RZ", "RZ")
    if constant or instruction.opcode in ("IMAD.MOV", "IMAD.MOV.U32"):
        return "move"
    if instruction.root == "HADD2" and "F32" in instruction.parts:
        return "conversion"  # from float16
    return _KIND_OF.get(instruction.root, OTHER)


_BY_KIND = {
    "special": "special", "fp32": "fp32", "fp16x2": "fp16x2", "fp64": "fp64", "tensor": "tensor",
    "multiply": "multiply", "shuffle": "shuffle", "global load": "load/store", "global store": "load/store",
    "shared": "load/store", "local": "load/store", "atomic": "load/store", "integer": "alu", "fp32 compare": "alu",
}  # fmt: skip
_FLOPS = {
    "FADD": 1, "FMUL": 1, "FFMA": 2, "FADD2": 2, "FMUL2": 2, "FFMA2": 4, "HADD2": 2, "HMUL2": 2, "HFMA2": 4,
    "DADD": 1, "DMUL": 1, "DFMA": 2,
}  # fmt: skip
_SLOW_INTEGER = {"POPC", "FLO", "BREV"}


def pipe(instruction: Instruction) -> str:
    """The unit of the SM that an instruction keeps busy; "" if that unit never bounds a launch."""
    root, what = instruction.root, kind(instruction)
    if root.startswith("U") and what in ("integer", "multiply", "move", "fp32", "conversion"):
        return ""  # the uniform unit executes once per warp
    if root == "HFMA2":
        return "multiply" if "MMA" in instruction.parts else "fp16x2"
    if root == "IMAD":
        return "multiply"
    if root.startswith("HADD2"):
        return "fp16x2"
    if what == "conversion":
        return "alu" if root == "I2FP" else "special"
    if root in _SLOW_INTEGER:
        return "special"
    return "alu" if root == "MOV" else _BY_KIND.get(what, "")


def mix(code: Code, path: Path) -> Mix:
    """The instructions that the path executes."""
    kinds: Counter[str] = Counter()
    pipes: Counter[str] = Counter()
    opcodes: Counter[str] = Counter()
    lines: Counter[tuple[str, int]] = Counter()
    accesses: Counter[tuple[str, int]] = Counter()
    flops = 0
    for instruction in code.instructions:
        count = path.counts[instruction.address]
        if not count:
            continue
        what = kind(instruction)
        kinds[what] += count
        pipes[pipe(instruction)] += count
        opcodes[".".join(instruction.parts[: 2 if instruction.root == "MUFU" else 1])] += count
        lines[instruction.file, instruction.line] += count
        flops += 0 if what in ("move", "conversion") else count * _FLOPS.get(instruction.root, 0)
        if what in ("global load", "global store", "local") or instruction.root in ("LDS", "STS", "LDGSTS"):
            accesses[instruction.root, instruction.width] += count - path.idle[instruction.address]
    total = sum(kinds.values())
    pipes.pop("", None)
    return Mix(
        total,
        {name: kinds[name] for name in (*KINDS, OTHER) if kinds[name]},
        dict(pipes.most_common()),
        dict(opcodes.most_common()),
        flops,
        tuple(Access(operation, width, n) for (operation, width), n in accesses.items() if n),
        tuple(Line(file, number, n / total) for (file, number), n in lines.most_common() if file),
    )
