r"""Is an answer text equal to a gold answer text? The entry point is `answers.equivalent`.

A text is normalised (`normalize`), cut into tokens (`lexer`) and read into a tree (`reader` for
lists, words and units; `parser`, `atoms`, `groups` for mathematics). Two trees are compared by
kind (`compare`, `regions`) down to numbers and expressions (`scalars`), whose values are settled
by exact arithmetic (`exact`) and only where that cannot, in a worker process, by 110-digit
evaluation (`numeric`); a gold answer that the grammar does not read goes to sympy (`symbolic`).
Answer text is never evaluated as code, and lengths, depths and sizes are bounded before any
arithmetic (`limits`).

The policy that the rules follow:

1.  Only text after the last `</think>` is graded; a think block left open has no answer.
2.  The last complete, non-empty box is the answer. Neighbouring boxes are one answer only inside
    one list phrase ("\boxed{1} and \boxed{2}"). No box is no answer, except for multiple choice.
3.  A label beats position, a repeated label takes its last box, and a missing label takes no
    other's.
4.  An integer gold answer wants a numeral: separators of thousands, leading zeros, ".0", a sign,
    a name ("x="), a unit, a currency, a degree or percent sign are fine; 2^{10} or \sqrt{625} is
    not.
5.  An exact gold answer wants an exact answer; there is no tolerance. A decimal gold answer of
    three or more digits may be a rounding: an exact value or a longer decimal that rounds to it
    is right.
6.  Other expressions are compared by value. An integral, sum, limit, product, derivative or
    determinant left unevaluated, or a function of numbers for a plain fraction, is no answer. A
    form (task "factor", "expand", "simplify") counts only where it is asked for.
7.  28% is 28 and 0.28, only where the percent sign is written.
8.  A unit missing on one side is fine; units that differ are not, and none is converted. Only
    units in \text or listed words are units, and of bare letters only m. 90° is pi/2 only with
    the sign.
9.  Lists and sets have no order but an exact size; tuples have one; brackets must match, except
    that a bare list may stand for a tuple. Alternatives ("4 or 5"), subsets and supersets are
    wrong.
10. A solved inequality is its interval, an unsolved one is not. Equations are equal up to a
    constant factor; a name on the left ("y =") may be missing. A false chain ("4 = 5") is wrong.
11. Free variables are never renamed; the argument of f(x), the constant in "+C" and variants of a
    glyph are. Words are compared without case, symbols with it. A number's base may be missing.
12. Unicode is folded first. What exceeds a limit of size or time is *failed*, which is counted
    apart from *incorrect*, except for an integer gold answer, for which it is certainly no
    numeral.
"""
