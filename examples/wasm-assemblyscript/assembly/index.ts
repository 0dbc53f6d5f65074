// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// A renderer of one's own: it gives every object of the step before the cluster's region as a label.
// Build it with `npm ci && npm run build`. docs/guides/renderers.md describes what it reads and writes.

import { JSON } from "assemblyscript-json/assembly";

// input returns the whole standard input as text.
function input(): string {
  const chunk = new ArrayBuffer(65536);
  const bytes: u8[] = [];
  for (let size = process.stdin.read(chunk); size > 0; size = process.stdin.read(chunk)) {
    const part = Uint8Array.wrap(chunk, 0, size);
    for (let i = 0; i < size; i++) bytes.push(part[i]);
  }
  return String.UTF8.decodeUnsafe(bytes.dataStart, bytes.length);
}

// child returns the map of a name, and adds an empty one if the map is missing.
function child(parent: JSON.Obj, name: string): JSON.Obj {
  const known = parent.getObj(name);
  if (known != null) return known;
  const made = JSON.Value.Object();
  parent.set(name, made);
  return made;
}

function render(list: JSON.Obj): JSON.Obj {
  const spec = child(child(list, "functionConfig"), "spec");
  const region = child(child(child(spec, "facts"), "cluster"), "labels").getString("region");
  const items = list.getArr("items");
  const results = JSON.Value.Array();
  if (region == null) {
    const result = JSON.Value.Object();
    result.set("message", "the cluster has no label region");
    result.set("severity", "warning");
    results.push(result);
  } else if (items != null) {
    const all = items.valueOf();
    for (let i = 0; i < all.length; i++) {
      child(child(<JSON.Obj>all[i], "metadata"), "labels").set("region", region.valueOf());
    }
  }
  const output = JSON.Value.Object();
  output.set("apiVersion", "config.kubernetes.io/v1");
  output.set("kind", "ResourceList");
  if (items != null) output.set("items", items);
  output.set("results", results);
  return output;
}

process.stdout.write(render(<JSON.Obj>JSON.parse(input())).stringify());
