// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Regular expressions whose search takes time in proportion to the text, whatever the expression and the text are. The
// browser's own can take forever, and here the expression comes with a link and the text from a cluster. It runs all
// states at once (Thompson), so it has no groups to refer back to, and no look around.

type Test = (code: number) => boolean;

type Part =
  | { is: "test"; test: Test }
  | { is: "edge"; holds: (text: string, at: number) => boolean }
  | { is: "all"; parts: Part[] }
  | { is: "any"; parts: Part[] }
  | { is: "repeat"; part: Part; least: number; most: number };

type Step =
  | { is: "test"; test: Test }
  | { is: "edge"; holds: (text: string, at: number) => boolean }
  | { is: "split"; a: number; b: number }
  | { is: "found" };

const mostSteps = 2000;
const mostCount = 200;
const mostDepth = 30;

const isWord: Test = (c) => (c >= 48 && c <= 57) || (c >= 65 && c <= 90) || c === 95 || (c >= 97 && c <= 122);
const isDigit: Test = (c) => c >= 48 && c <= 57;
const isSpace: Test = (c) => c === 32 || (c >= 9 && c <= 13) || c === 0xa0;
const not =
  (test: Test): Test =>
  (c) =>
    !test(c);
const classes: Record<string, Test> = {
  d: isDigit,
  D: not(isDigit),
  w: isWord,
  W: not(isWord),
  s: isSpace,
  S: not(isSpace),
};
const controls: Record<string, number> = { t: 9, n: 10, r: 13 };
const isBoundary = (text: string, at: number) =>
  isWord(at > 0 ? text.charCodeAt(at - 1) : 0) !== isWord(at < text.length ? text.charCodeAt(at) : 0);

class Parser {
  #at = 0;
  readonly #source: string;

  constructor(source: string) {
    this.#source = source;
  }

  parse(): Part {
    const part = this.#any(0);
    if (this.#at < this.#source.length) throw new SyntaxError("a ) closes nothing");
    return part;
  }

  #peek = () => this.#source[this.#at];
  #next() {
    const character = this.#source[this.#at];
    if (character === undefined) throw new SyntaxError("it ends too early");
    this.#at += 1;
    return character;
  }
  #take(character: string) {
    if (this.#peek() !== character) return false;
    this.#at += 1;
    return true;
  }

  #any(depth: number): Part {
    if (depth > mostDepth) throw new SyntaxError("it is nested too deeply");
    const parts = [this.#all(depth)];
    while (this.#take("|")) parts.push(this.#all(depth));
    return parts.length === 1 ? (parts[0] as Part) : { is: "any", parts };
  }

  #all(depth: number): Part {
    const parts: Part[] = [];
    for (let c = this.#peek(); c !== undefined && c !== "|" && c !== ")"; c = this.#peek()) {
      parts.push(this.#repeated(this.#atom(depth)));
    }
    return { is: "all", parts };
  }

  #repeated(part: Part): Part {
    let repeated = part;
    while (true) {
      let bounds: [number, number] | undefined;
      if (this.#take("*")) bounds = [0, Number.POSITIVE_INFINITY];
      else if (this.#take("+")) bounds = [1, Number.POSITIVE_INFINITY];
      else if (this.#take("?")) bounds = [0, 1];
      else bounds = this.#count();
      if (!bounds) return repeated;
      // Whether it prefers more or less is of no matter to what only asks whether it is found.
      this.#take("?");
      repeated = { is: "repeat", part: repeated, least: bounds[0], most: bounds[1] };
    }
  }

  #count(): [number, number] | undefined {
    const found = /^\{(\d{1,4})(,(\d{0,4}))?\}/.exec(this.#source.slice(this.#at, this.#at + 12));
    if (!found) return undefined;
    this.#at += found[0].length;
    const least = Number(found[1]);
    const most = found[2] === undefined ? least : found[3] ? Number(found[3]) : Number.POSITIVE_INFINITY;
    if (least > mostCount || (most !== Number.POSITIVE_INFINITY && (most > mostCount || most < least))) {
      throw new SyntaxError(`it repeats more than ${mostCount} times`);
    }
    return [least, most];
  }

  #atom(depth: number): Part {
    const character = this.#next();
    switch (character) {
      case "(": {
        if (this.#take("?") && !this.#take(":")) throw new SyntaxError("it looks around, which is not known here");
        const part = this.#any(depth + 1);
        if (!this.#take(")")) throw new SyntaxError("a ( is not closed");
        return part;
      }
      case "[":
        return { is: "test", test: this.#set() };
      case ".":
        return { is: "test", test: () => true };
      case "^":
        return { is: "edge", holds: (_, at) => at === 0 };
      case "$":
        return { is: "edge", holds: (text, at) => at === text.length };
      case "*":
      case "+":
      case "?":
        throw new SyntaxError(`nothing is before ${character}`);
      case "\\":
        return this.#escape();
      default:
        return literal(character);
    }
  }

  #escape(): Part {
    const character = this.#next();
    const known = classes[character];
    if (known) return { is: "test", test: known };
    if (character === "b") return { is: "edge", holds: isBoundary };
    if (character === "B") return { is: "edge", holds: (text, at) => !isBoundary(text, at) };
    if (/[1-9k]/.test(character)) throw new SyntaxError("it refers back, which is not known here");
    const control = controls[character];
    return control === undefined ? literal(character) : { is: "test", test: (c) => c === control };
  }

  #set(): Test {
    const isNegated = this.#take("^");
    const tests: Test[] = [];
    let isFirst = true;
    while (isFirst || this.#peek() !== "]") {
      isFirst = false;
      const from = this.#member();
      if (typeof from === "function") tests.push(from);
      else if (this.#peek() === "-" && this.#source[this.#at + 1] !== "]") {
        this.#next();
        const to = this.#member();
        if (typeof to === "function" || to < from) throw new SyntaxError("a range is the wrong way round");
        tests.push((c) => c >= from && c <= to);
      } else tests.push((c) => c === from);
    }
    this.#next();
    const some: Test = (c) => tests.some((test) => test(c));
    return isNegated ? not(some) : some;
  }

  #member(): number | Test {
    const character = this.#next();
    if (character !== "\\") return character.charCodeAt(0);
    const escaped = this.#next();
    return classes[escaped] ?? controls[escaped] ?? escaped.charCodeAt(0);
  }
}

const literal = (character: string): Part => {
  const code = character.charCodeAt(0);
  return { is: "test", test: (c) => c === code };
};

function compile(part: Part, steps: Step[]): void {
  if (steps.length > mostSteps) throw new SyntaxError("it is too long");
  switch (part.is) {
    case "test":
    case "edge":
      steps.push(part);
      return;
    case "all":
      for (const each of part.parts) compile(each, steps);
      return;
    case "any": {
      const ends: { is: "split"; a: number; b: number }[] = [];
      part.parts.forEach((each, index) => {
        const isLast = index === part.parts.length - 1;
        const split = { is: "split" as const, a: steps.length + 1, b: 0 };
        if (!isLast) steps.push(split);
        compile(each, steps);
        if (isLast) return;
        const end = { is: "split" as const, a: 0, b: 0 };
        steps.push(end);
        ends.push(end);
        split.b = steps.length;
      });
      for (const end of ends) end.a = end.b = steps.length;
      return;
    }
    case "repeat": {
      for (let index = 0; index < part.least; index++) compile(part.part, steps);
      if (part.most === Number.POSITIVE_INFINITY) {
        const split = { is: "split" as const, a: steps.length + 1, b: 0 };
        const at = steps.length;
        steps.push(split);
        compile(part.part, steps);
        steps.push({ is: "split", a: at, b: at });
        split.b = steps.length;
        return;
      }
      const splits: { is: "split"; a: number; b: number }[] = [];
      for (let index = part.least; index < part.most; index++) {
        const split = { is: "split" as const, a: steps.length + 1, b: 0 };
        steps.push(split);
        splits.push(split);
        compile(part.part, steps);
      }
      for (const split of splits) split.b = steps.length;
    }
  }
}

/** Returns a function that reports whether a text has a match. It throws a SyntaxError about what it does not know. */
export function expression(source: string): (text: string) => boolean {
  const steps: Step[] = [];
  compile(new Parser(source).parse(), steps);
  steps.push({ is: "found" });
  if (steps.length > mostSteps) throw new SyntaxError("it is too long");
  const seen = new Int32Array(steps.length).fill(-1);
  let mark = 0;
  return (text) => {
    let now: number[] = [];
    let isFound = false;
    const enter = (list: number[], first: number, at: number) => {
      const open = [first];
      for (let index = open.pop(); index !== undefined; index = open.pop()) {
        if (seen[index] === mark) continue;
        seen[index] = mark;
        const step = steps[index] as Step;
        if (step.is === "found") isFound = true;
        else if (step.is === "test") list.push(index);
        else if (step.is === "split") open.push(step.a, step.b);
        else if (step.holds(text, at)) open.push(index + 1);
      }
    };
    mark += 1;
    enter(now, 0, 0);
    for (let at = 0; at < text.length && !isFound; at++) {
      const code = text.charCodeAt(at);
      const next: number[] = [];
      mark += 1;
      for (const index of now) {
        const step = steps[index] as Step;
        if (step.is === "test" && step.test(code)) enter(next, index + 1, at + 1);
      }
      enter(next, 0, at + 1);
      now = next;
    }
    return isFound;
  };
}

/** Matcher reports whether a line is to be shown. */
export type Matcher = (text: string) => boolean;

/**
 * Returns the matcher of a filter, or the reason for which there is none. Letters match in both cases, unless the filter
 * has a capital one.
 */
export function matcherOf(filter: string, isExpression: boolean): { matches: Matcher } | { objection: string } {
  const folds = filter === filter.toLowerCase();
  const fold = (text: string) => (folds ? text.toLowerCase() : text);
  if (!isExpression) return { matches: (text) => fold(text).includes(filter) };
  try {
    const found = expression(filter);
    return { matches: (text) => found(fold(text)) };
  } catch (thrown) {
    return { objection: thrown instanceof SyntaxError ? thrown.message : String(thrown) };
  }
}
