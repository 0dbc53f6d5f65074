// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// What a person can see of a page and reach on it. Each function returns a line for each thing that is wrong, and
// visible.test.tsx shows that it finds such things.

const controls =
  "a[href], button, input:not([type=hidden]), textarea, select, [role=tab], [role=row][tabindex='0'], [role=treeitem][tabindex='0']";

/** Reports whether an element is for screen readers alone, or until it has the focus. */
const isUnseen = (element: Element) => {
  for (let at: Element | null = element; at; at = at.parentElement) {
    if (getComputedStyle(at).clipPath === "inset(50%)") return true;
  }
  return false;
};

const isShown = (element: Element) => element.checkVisibility({ visibilityProperty: true }) && !isUnseen(element);

const named = (element: Element) =>
  `${element.tagName.toLowerCase()} "${element.getAttribute("aria-label") ?? element.textContent?.slice(0, 60)}"`;

/** Returns the controls that are shown. The field that takes the keys of a terminal is behind its screen. */
const shownControls = () =>
  [...document.querySelectorAll<HTMLElement>(`#app :is(${controls}):not(.xterm *)`)].filter(isShown);

/** Returns the texts of the page that are shown, each with its element. */
function* texts(): Generator<{ text: Text; element: Element }> {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (element?.closest("#app, [role=dialog], [role=menu]") && node.textContent?.trim() && isShown(element)) {
      yield { text: node as Text, element };
    }
  }
}

const boxesOf = (text: Text) => {
  const range = document.createRange();
  range.selectNodeContents(text);
  return [...range.getClientRects()];
};

/** Reports whether a text that is cut off is written in full where its reader finds it: a tip, a name, or a page. */
const isElsewhere = (text: Text, element: Element) => {
  const whole = (text.textContent ?? "").replaceAll(/\s+/g, " ").trim();
  for (let at: Element | null = element; at; at = at.parentElement) {
    const words = `${at.getAttribute("title") ?? ""} ${at.getAttribute("aria-label") ?? ""}`;
    if (words.replaceAll(/\s+/g, " ").includes(whole)) return true;
    if (at.matches("[role=row]")) return at.matches(":has(a[href])") || at.hasAttribute("tabindex");
  }
  return false;
};

/** Returns the nearest element that cuts a box off, unless the person can scroll to what it hides. */
function cutter(box: DOMRect, element: Element): Element | undefined {
  let { horizontally, vertically } = { horizontally: true, vertically: true };
  for (let at: Element | null = element; at && (horizontally || vertically); at = at.parentElement) {
    const { overflowX, overflowY, display } = getComputedStyle(at);
    if (display === "inline" || display === "contents") continue;
    const { left, right, top, bottom } = at.getBoundingClientRect();
    if (overflowX === "auto" || overflowX === "scroll") horizontally = false;
    if (overflowY === "auto" || overflowY === "scroll") vertically = false;
    const hides = (overflow: string) => overflow === "hidden" || overflow === "clip";
    if (horizontally && hides(overflowX) && (box.left < left - 1 || box.right > right + 1)) return at;
    // The box of a line is as high as its font, and may be higher than what is drawn of it.
    const middle = (box.top + box.bottom) / 2;
    if (vertically && hides(overflowY) && (middle < top || middle > bottom)) return at;
  }
  return undefined;
}

/** Returns what cannot be reached or read at the size of the screen. */
export function lost(): string[] {
  const found: string[] = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) found.push(`the page is wider than ${width} px`);
  for (const control of shownControls()) {
    control.scrollIntoView({ block: "center", inline: "nearest" });
    // A link that breaks into lines has a box for each.
    const boxes = [...control.getClientRects()].filter((box) => box.width > 1 && box.height > 1);
    if (boxes.length === 0) found.push(`${named(control)} has no size`);
    if (boxes.some(({ left, right }) => left < -1 || right > width + 1)) {
      found.push(`${named(control)} is beside the screen`);
    }
    const isHit = ({ left, right, top, bottom }: DOMRect) => {
      const at = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
      return at && (control.contains(at) || at.closest("label")?.contains(control));
    };
    if (boxes.length > 0 && !boxes.some(isHit)) found.push(`${named(control)} is covered`);
  }
  for (const { text, element } of texts()) {
    const by = boxesOf(text)
      .map((box) => cutter(box, element))
      .find((each) => each);
    if (by && !isElsewhere(text, element))
      found.push(`"${text.textContent?.slice(0, 60)}" is cut off by ${by.className}`);
  }
  return found;
}

type Colour = readonly [red: number, green: number, blue: number, alpha: number];

const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const known = new Map<string, Colour>();

/** Returns a colour in any notation as numbers from 0 to 1. */
function colour(written: string): Colour {
  const before = known.get(written);
  if (before) return before;
  if (!canvas) throw new Error("the browser has no canvas");
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = written;
  canvas.fillRect(0, 0, 1, 1);
  const [red = 0, green = 0, blue = 0, alpha = 0] = canvas.getImageData(0, 0, 1, 1).data;
  const numbers = [red / 255, green / 255, blue / 255, alpha / 255] as const;
  known.set(written, numbers);
  return numbers;
}

const over = ([red, green, blue, alpha]: Colour, below: Colour): Colour => [
  red * alpha + below[0] * (1 - alpha),
  green * alpha + below[1] * (1 - alpha),
  blue * alpha + below[2] * (1 - alpha),
  1,
];

/** Returns how light a colour is, as WCAG measures it: 0 for black, 1 for white. */
export function luminance(written: string | Colour): number {
  const [red, green, blue] = (typeof written === "string" ? colour(written) : written).map((part) =>
    part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4,
  ) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: Colour, two: Colour): number {
  const [light, dark] = [luminance(one), luminance(two)].toSorted((a, b) => b - a) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

/** Returns what is painted behind an element's text. */
function ground(element: Element | null): Colour {
  if (!element) return [1, 1, 1, 1];
  const own = colour(getComputedStyle(element).backgroundColor);
  return own[3] === 1 ? own : over(own, ground(element.parentElement));
}

const opacity = (element: Element | null): number =>
  element ? Number(getComputedStyle(element).opacity) * opacity(element.parentElement) : 1;

const ratio = (n: number) => `${n.toFixed(2)}:1`;

/**
 * Returns the texts with less contrast than a bar, or than 3:1 where they are large, and the fields whose edge has less
 * than 3:1. Controls that are switched off need none, and the words of a drawing are also in its table.
 */
export function unreadable(bar: number): string[] {
  const found: string[] = [];
  for (const { text, element } of texts()) {
    if (element.closest("[disabled], [aria-disabled=true], svg")) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const size = Number.parseFloat(fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(fontWeight) >= 700);
    const behind = ground(element);
    const [red, green, blue, alpha] = colour(color);
    const has = contrast(over([red, green, blue, alpha * opacity(element)], behind), behind);
    if (has < (isLarge ? Math.min(bar, 4.5) - 1.5 : bar)) {
      found.push(
        `"${text.textContent?.slice(0, 60)}" has ${ratio(has)}: ${color} on ${behind.map((n) => n.toFixed(2))}`,
      );
    }
  }
  for (const field of document.querySelectorAll<HTMLInputElement>("#app :is(input, textarea, select)")) {
    if (!isShown(field) || field.matches("[type=checkbox], [type=radio], [type=range], :disabled, .xterm *")) continue;
    if (field.placeholder) {
      const has = contrast(over(colour(getComputedStyle(field, "::placeholder").color), ground(field)), ground(field));
      if (has < bar) found.push(`the placeholder of ${named(field)} has ${ratio(has)}`);
    }
    // A field with an icon in it has its edge around both.
    const edges = [field, field.parentElement].map((each) => {
      const { borderBottomStyle, borderBottomWidth, borderBottomColor } = getComputedStyle(each as Element);
      if (borderBottomStyle === "none" || borderBottomWidth === "0px") return 1;
      const behind = ground((each as Element).parentElement);
      return contrast(over(colour(borderBottomColor), behind), behind);
    });
    if (Math.max(...edges) < 3) found.push(`the edge of ${named(field)} has ${ratio(Math.max(...edges))}`);
  }
  return found;
}

/** Returns the surfaces that are not of the theme: large ones that are light in a dark page, or dark in a light one. */
export function strange(isDark: boolean): string[] {
  return [...document.querySelectorAll<HTMLElement>("html, body, #app, #app *")].flatMap((element) => {
    const { width, height } = element.getBoundingClientRect();
    const own = colour(getComputedStyle(element).backgroundColor);
    if (own[3] < 1 || width * height < 10_000 || !isShown(element)) return [];
    const light = luminance(own);
    return (isDark ? light > 0.1 : light < 0.7) ? [`${named(element)} has a surface of ${light.toFixed(2)}`] : [];
  });
}

/** Returns what moves, and what would when something changes. */
export function moving(): string[] {
  const found = document.getAnimations().map((animation) => `an animation of ${animation.id} ${animation.playState}`);
  for (const element of document.querySelectorAll("*")) {
    for (const part of [undefined, "::before", "::after"]) {
      const { animationName, transitionDuration, scrollBehavior, content } = getComputedStyle(element, part);
      if (part && content === "none") continue;
      const takes = transitionDuration.split(",").some((time) => Number.parseFloat(time) > 0);
      if (animationName !== "none" || takes || scrollBehavior === "smooth")
        found.push(`${named(element)} ${part ?? ""}`);
    }
  }
  return found;
}

const hasEdge = (element: Element) => {
  const { borderTopWidth, borderTopStyle, borderBottomWidth, borderBottomStyle } = getComputedStyle(element);
  const isDrawn = (style: string, width: string) => style !== "none" && style !== "hidden" && width !== "0px";
  return isDrawn(borderTopStyle, borderTopWidth) || isDrawn(borderBottomStyle, borderBottomWidth);
};

const hasOutline = (element: Element | null) => {
  if (!element) return false;
  const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element);
  return outlineStyle !== "none" && outlineWidth !== "0px" && colour(outlineColor)[3] > 0;
};

/**
 * Returns the controls that are not seen as such where surfaces have the system's one colour: without an edge, a line, an
 * icon, or the colour of links. Rows, tabs and the shell's pages are seen by their place, and what a canvas draws is below
 * a control without words.
 */
export function flat(): string[] {
  const probe = document.createElement("i");
  probe.style.color = "LinkText";
  document.body.append(probe);
  const ofLinks = getComputedStyle(probe).color;
  probe.remove();
  return shownControls()
    .filter(
      (control) =>
        !control.matches("[role=row], [role=treeitem], [role=tab], nav *, [type=checkbox], [type=radio], [type=range]"),
    )
    .filter((control) => control.matches("input, select, textarea") || control.textContent !== "")
    .filter((control) => {
      const { color, textDecorationLine } = getComputedStyle(control);
      const isLine = textDecorationLine !== "none" || (control.matches("a") && color === ofLinks);
      // A field with an icon in it has its edge around both.
      const edges = control.matches("input") ? [control, control.parentElement as Element] : [control];
      return !(isLine || edges.some(hasEdge) || control.querySelector("svg"));
    })
    .map(named);
}

/** Returns what is chosen and drawn as what is not, by more than a surface. */
export function alike(): string[] {
  const drawn = (element: Element) => {
    const { outlineStyle, borderTopColor, borderBottomStyle, borderBottomColor, color, textDecorationLine } =
      getComputedStyle(element);
    return [outlineStyle, borderTopColor, borderBottomStyle, borderBottomColor, color, textDecorationLine].join();
  };
  const found: string[] = [];
  for (const [chosen, group, other] of [
    ["nav a[aria-current=page]", "nav", "a:not([aria-current=page])"],
    ["[aria-pressed=true]", "*:has(> [aria-pressed=false])", "[aria-pressed=false]"],
    ["[role=tab][aria-selected=true]", "[role=tablist]", "[role=tab][aria-selected=false]"],
  ] as const) {
    for (const one of document.querySelectorAll(chosen)) {
      const two = [...(one.closest(group)?.querySelectorAll(other) ?? [])].find(isShown);
      if (isShown(one) && two && drawn(one) === drawn(two)) found.push(`${named(one)} is drawn as ${named(two)}`);
    }
  }
  return found;
}

/** Gives the focus to each control, and returns those that do not take it or do not show it. */
export function unfocused(): string[] {
  return shownControls().flatMap((control) => {
    if (control.matches("[disabled], [tabindex='-1']")) return [];
    control.focus({ focusVisible: true } as FocusOptions);
    if (document.activeElement !== control) return [`${named(control)} takes no focus`];
    // A field with an icon in it has its outline around both.
    return hasOutline(control) || hasOutline(control.closest(":focus-within:not(:focus)"))
      ? []
      : [`the focus of ${named(control)} is not shown`];
  });
}
