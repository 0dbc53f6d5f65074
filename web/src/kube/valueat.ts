// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

const isFields = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Reports whether an item of a list has the keys of a selector such as `name="web",port=80`. */
function hasKeys(item: unknown, selector: string): boolean {
  const pairs = [...selector.matchAll(/([^=,]*)=("(?:[^"\\]|\\.)*"|[^,]*)/g)];
  return (
    pairs.length > 0 &&
    pairs.every(([, key = "", value = ""]) => {
      const own = key === "" ? item : isFields(item) ? item[key] : undefined;
      return own !== undefined && JSON.stringify(own) === value;
    })
  );
}

/**
 * Returns the value of a field as an API server names it in a conflict, such as `.spec.containers[name="web"].image`, or
 * undefined. A key may have dots itself, so the longest key of the object that fits is the one that is meant.
 */
export function valueAt(value: unknown, path: string): unknown {
  if (path === "") return value;
  if (path.startsWith(".") && isFields(value)) {
    const rest = path.slice(1);
    const fits = Object.keys(value)
      .filter((key) => rest.startsWith(key) && /^([.[]|$)/.test(rest.slice(key.length)))
      .sort((a, b) => b.length - a.length);
    for (const key of fits) {
      const found = valueAt(value[key], rest.slice(key.length));
      if (found !== undefined) return found;
    }
    return undefined;
  }
  const [whole, selector] = /^\[((?:"(?:[^"\\]|\\.)*"|[^\]"])*)\]/.exec(path) ?? [];
  if (whole === undefined || selector === undefined || !Array.isArray(value)) return undefined;
  const item = /^\d+$/.test(selector) ? value[Number(selector)] : value.find((each) => hasKeys(each, selector));
  return item === undefined ? undefined : valueAt(item, path.slice(whole.length));
}
