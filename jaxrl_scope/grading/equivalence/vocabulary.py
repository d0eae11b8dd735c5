"""The words of answers: LaTeX commands, function names, units, and English around values."""


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


# LaTeX: what a command, without its backslash, stands for.

OPERATORS = {
    "cdot": "*", "times": "*", "ast": "*", "div": "/", "pm": "±", "mp": "∓", "cup": "∪",
    "cap": "∩", "setminus": "∖", "backslash": "∖", "in": "∈", "mid": "¦", "vert": "|",
    "lvert": "|", "rvert": "|", "Vert": "‖", "lVert": "‖", "rVert": "‖", "langle": "⟨",
    "rangle": "⟩", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "circ": "∘",
    "degree": "°", "colon": ":", "prime": "'", "lbrace": "\\{", "rbrace": "\\}",
    "lbrack": "[", "rbrack": "]", "lparen": "(", "rparen": ")", "bmod": "mod", "mod": "mod",
    "pmod": "pmod", "lor": "or", "vee": "or", "land": "and", "wedge": "and", "dots": "…",
    "ldots": "…", "cdots": "…", "frac": "frac", "sqrt": "sqrt", "binom": "binom",
    "overline": "overline", "bar": "overline", "vec": "style",
    "overrightarrow": "style", "hat": "style", "widehat": "style", "tilde": "style",
    "dot": "style", "angle": "angle", "triangle": "angle",
    "emptyset": "∅", "varnothing": "∅", "top": "transpose",
    "{": "\\{", "}": "\\}", "|": "‖", "%": "%", "$": "$", "&": "&", "\\": "\\\\", "_": "_",
    "-": "-", "/": "/",
}  # fmt: skip
RELATIONS = {
    "=": "=", "==": "=", "<": "<", ">": ">", "<=": "≤", ">=": "≥", "=<": "≤", "!=": "≠",
    "lt": "<", "gt": ">", "le": "≤", "leq": "≤", "leqslant": "≤", "ge": "≥", "geq": "≥",
    "geqslant": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "simeq": "≈", "equiv": "≡",
    "cong": "≡", "sim": "~", "to": "→", "rightarrow": "→", "mapsto": "→", "implies": "→",
    "Rightarrow": "→", "iff": "→", "ll": "≪", "gg": "≫", "subset": "⊂", "subseteq": "⊂",
    "propto": "∝",
}  # fmt: skip
CONSTANTS = {"pi": "pi", "infty": "oo", "imath": "i"}
NUMBER_SETS = {"R": "RR", "Z": "ZZ", "N": "NN", "Q": "QQ", "C": "CC"}
GLYPHS = {"varepsilon": "epsilon", "vartheta": "theta", "varphi": "phi", "varrho": "rho"}
FUNCTIONS = words(
    "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh coth ln log lg exp "
    "max min gcd lcm arg Re Im sqrt abs"
)
FUNCTION_SYNONYMS = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "arctg": "arctan", "tg": "tan",
    "ctg": "cot", "cosec": "csc", "arcctg": "arccot",
}  # fmt: skip
BIG_OPERATORS = words("sum prod int iint iiint oint lim limsup liminf sup inf coprod det")
IGNORED = words("nonumber notag hline relax")
TEXT_COMMANDS = words("text mbox textnormal textrm textit textsf texttt textup hbox textbf emph")
UPRIGHT_COMMANDS = words("mathrm operatorname mathsf mathtt mathbf boldsymbol bm mathit underline")
BOLD_COMMANDS = words("mathbf boldsymbol bm")
HIDING_COMMANDS = words("phantom hphantom vphantom")
LETTER_COMMANDS = words("mathbb mathcal mathfrak mathscr")

# English around a value.

PERCENT_WORDS = words("percent percentage pct")
DEGREE_WORDS = words("degree degrees deg")
COPULAS = words("is are be equals equal was were being")
NEGATIONS = words("not no never cannot isn neither nor except without non un")
ASSENT = words("yes no")
QUANTIFIERS = words("all any every each")
APPROXIMATE = words("about approximately approx roughly around")
ARTICLES = words("a an the")
ORDINAL_ENDINGS = words("st nd rd th")
CURRENCIES = {"$": "dollar", "€": "euro", "£": "pound sterling", "¥": "yen"}
SCALES = {
    "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
DIGIT_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip

# Unit words, by the name of the unit.

UNITS = {
    "m": "m meter meters metre metres", "cm": "cm centimeter centimeters centimetre centimetres",
    "mm": "mm millimeter millimeters millimetre millimetres",
    "km": "km kilometer kilometers kilometre kilometres", "nm": "nm nanometer nanometers",
    "in": "in inch inches", "ft": "ft foot feet", "yd": "yd yard yards", "mi": "mi mile miles",
    "s": "s sec secs second seconds", "ms": "ms millisecond milliseconds",
    "min": "min mins minute minutes", "h": "h hr hrs hour hours", "day": "day days",
    "week": "week weeks", "month": "month months", "year": "yr yrs year years",
    "g": "g gram grams", "kg": "kg kilogram kilograms", "mg": "mg milligram milligrams",
    "lb": "lb lbs pound pounds", "oz": "oz ounce ounces", "ton": "ton tons tonne tonnes",
    "L": "L l liter liters litre litres", "mL": "mL ml milliliter milliliters",
    "gal": "gal gallon gallons", "qt": "qt quart quarts", "pt": "pint pints", "cup": "cup cups",
    "J": "J joule joules", "kJ": "kJ kilojoule kilojoules", "W": "W watt watts", "kW": "kW",
    "N": "N newton newtons", "Pa": "Pa pascal pascals", "kPa": "kPa", "V": "V volt volts",
    "A": "amp amps ampere amperes", "ohm": "ohm ohms", "Hz": "Hz hertz", "mol": "mol mole moles",
    "K": "K kelvin kelvins", "degC": "degC celsius", "degF": "degF fahrenheit",
    "eV": "eV electronvolt electronvolts", "cal": "cal calorie calories",
    "rad": "rad radian radians", "dollar": "dollar dollars usd", "cent": "cent cents",
    "euro": "euro euros eur", "yen": "yen", "pound sterling": "gbp", "rupee": "rupee rupees",
    "yuan": "yuan rmb", "unit": "unit units", "am": "am", "pm": "pm", "mph": "mph",
    "acre": "acre acres",
}  # fmt: skip
# Words after a number that are neither units nor things counted.
NOT_UNITS = words(
    "january february march april may june july august september october november december jan feb "
    "mar apr jun jul aug sept oct nov dec monday tuesday wednesday thursday friday saturday sunday"
)
POWER_WORDS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
POWER_SUFFIXES = {"squared": 2, "cubed": 3}
UNIT_FILLER = words("of the a an in each total altogether approximately about")
# Units that need no \text around them: nobody writes these letters for a product.
BARE_UNITS = words("cm mm km kg mg mL ml ft lb lbs oz mph Hz kPa kJ kW mol sec hr hrs yd usd am pm")
# Short words that are prose wherever they stand, never a product of letters.
SHORT_WORDS = BARE_UNITS | words(
    "and or is are the not yes no of for if all any iff odd none cup cups per pct"
)
