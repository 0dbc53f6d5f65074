// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { create, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { type ReflectList, type ReflectMap, type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { createConnectRouter } from "@connectrpc/connect";
import { createFetchHandler } from "@connectrpc/connect/protocol";
import { createMemoryHistory } from "@tanstack/react-router";
import type { Page } from "playwright";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isSiege } from "../build/siege.js";
import { AgentService } from "../src/gen/leat/agent/v1/agent_pb";
import { FleetService } from "../src/gen/leat/fleet/v1/fleet_pb";
import { FleetSourceService } from "../src/gen/leat/fleet/v1/fleet_source_pb";
import { GlobalServiceService } from "../src/gen/leat/fleet/v1/global_service_pb";
import { ImagePolicyService } from "../src/gen/leat/fleet/v1/image_policy_pb";
import { QueryService } from "../src/gen/leat/fleet/v1/query_pb";
import { RolloutService } from "../src/gen/leat/fleet/v1/rollout_pb";
import { SessionService } from "../src/gen/leat/fleet/v1/session_pb";
import { makeRouter } from "../src/shell/router.tsx";
import { type Built, startBuilt } from "./built.ts";

// The built UI under its policy, with a hub whose every answer is hostile: each field of each message that it could
// send is filled by its descriptor, so a kind or a field that is added later is among them at once.

const evil =
  '<img src=x onerror="document.title=\'broken\'"><script>document.title="broken"</script>' +
  "javascript:alert(1) \u202egnp.exe\u200b \u001b[31m\u001b]8;;javascript:alert(1)\u0007x\u001b]8;;\u0007 \u0000";
/** A text of which a message has one, or the page would be busy with reading it. */
const long = evil.repeat(6000).slice(0, 1_000_000);

/** Ill is a way in which answers are hostile. */
interface Ill {
  name: string;
  text: (field: DescField) => string;
  /** How long a list is that is in no other list. */
  items: number;
  number: bigint;
  enumNumber: (known: readonly number[]) => number;
  /** In milliseconds. */
  time: bigint;
}

const last = (known: readonly number[]) => known.at(-1) ?? 0;
const ills: Ill[] = [
  {
    name: "markup in every text",
    text: () => evil,
    items: 3,
    number: 3n,
    enumNumber: last,
    time: BigInt(Date.now() - 60_000),
  },
  {
    name: "a megabyte in a text, and figures without a bound",
    text: ({ name }) => (name === "message" ? long : evil),
    items: 2,
    number: 2n ** 62n,
    enumNumber: () => 9999,
    time: 2n ** 62n,
  },
  {
    name: "10,000 of everything",
    text: ({ name }) => `${name} <b>`,
    items: 10_000,
    number: -1n,
    enumNumber: last,
    time: -(2n ** 62n),
  },
];

const wide = new Set([ScalarType.INT64, ScalarType.UINT64, ScalarType.SINT64, ScalarType.FIXED64, ScalarType.SFIXED64]);
const unsigned = new Set([ScalarType.UINT32, ScalarType.FIXED32, ScalarType.UINT64, ScalarType.FIXED64]);

function scalarOf(ill: Ill, field: DescField, type: ScalarType): unknown {
  if (type === ScalarType.STRING) return ill.text(field);
  if (type === ScalarType.BYTES) return new TextEncoder().encode(evil);
  if (type === ScalarType.BOOL) return true;
  if (type === ScalarType.DOUBLE || type === ScalarType.FLOAT) return ill.number < 0 ? Number.NaN : Number(ill.number);
  const number = unsigned.has(type) && ill.number < 0 ? 0n : ill.number;
  return wide.has(type) ? number : Number(number > 2n ** 31n - 1n ? 2n ** 31n - 1n : number);
}

/** Returns a message with every field filled. Of a choice it is the one about the kind, or the last one. */
function filled(ill: Ill, desc: DescMessage, kind: string, depth = 0, isInList = false): Message {
  const message = create(desc);
  const into: ReflectMessage = reflect(desc, message);
  if (desc.typeName === "google.protobuf.Timestamp") {
    Object.assign(message, { seconds: ill.time / 1000n, nanos: 0 });
    return message;
  }
  if (depth > 7) return message;
  const one = (sub: DescMessage, isMember: boolean) =>
    reflect(sub, filled(ill, sub, kind, depth + 1, isInList || isMember));
  const enumOf = (values: readonly { number: number }[]) => ill.enumNumber(values.map(({ number }) => number));
  for (const field of desc.fields) {
    // What is deleted is not shown.
    if (field.name === "deleted") continue;
    const about = field.oneof?.fields.find(({ message }) => message?.name === kind);
    if (field.oneof && field !== (about ?? field.oneof.fields.at(-1))) continue;
    // The browser pages through what has more, and asks again for each.
    if (/page_token$/.test(field.name)) continue;
    // The hub never returns more rows than were asked for.
    const most = /^(rows|documents|window)$/.test(field.name) ? 200 : ill.items;
    const count = isInList ? 1 : Math.min(most, ill.items);
    if (field.fieldKind === "scalar") into.set(field, scalarOf(ill, field, field.scalar));
    else if (field.fieldKind === "enum") into.set(field, enumOf(field.enum.values));
    else if (field.fieldKind === "message") into.set(field, one(field.message, false));
    else if (field.fieldKind === "map") {
      const map = into.get(field) as ReflectMap;
      for (let index = 0; index < Math.min(count, 100); index++) {
        const key = field.mapKey === ScalarType.STRING ? `${evil}${index}` : index;
        if (field.mapKind === "message") map.set(key, one(field.message, true));
        else if (field.mapKind === "scalar") map.set(key, scalarOf(ill, field, field.scalar));
        else map.set(key, enumOf(field.enum.values));
      }
    } else {
      const list = into.get(field) as ReflectList;
      const item =
        field.listKind === "message"
          ? one(field.message, true)
          : field.listKind === "scalar"
            ? scalarOf(ill, field, field.scalar)
            : enumOf(field.enum.values);
      for (let index = 0; index < count; index++) list.add(item);
    }
  }
  return message;
}

/** Answers every call of every service. */
function hostile(ill: Ill) {
  const router = createConnectRouter();
  const known = new Map<string, Message>();
  for (const service of [
    AgentService,
    FleetService,
    FleetSourceService,
    GlobalServiceService,
    ImagePolicyService,
    QueryService,
    RolloutService,
    SessionService,
  ]) {
    const methods = service.methods.map((method) => {
      const answer = (request: Message) => {
        const { kind, query } = request as { kind?: string; query?: { kind?: string } };
        const about = kind ?? query?.kind ?? "";
        const key = `${method.output.typeName} ${about}`;
        const message = known.get(key) ?? filled(ill, method.output, about);
        known.set(key, message);
        return message;
      };
      const stream = async function* (request: Message, { signal }: { signal: AbortSignal }) {
        yield answer(request);
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      };
      return [method.localName, method.methodKind === "unary" ? answer : stream];
    });
    const own = service === SessionService && {
      createAccessToken: () => ({
        accessToken: "a.b.c",
        expireTime: timestampFromMs(Date.now() + 300_000),
        session: { id: evil, person: evil, groups: [evil] },
      }),
    };
    router.service(service, { ...Object.fromEntries(methods), ...own });
  }
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, createFetchHandler(handler)]));
  // Pages ask for much of the same, and to write 10,000 of everything takes half a second. Streams never end.
  const lasting = new Set(
    router.handlers
      .filter(({ method, service }) => method.methodKind === "unary" && service.typeName !== SessionService.typeName)
      .map(({ requestPath }) => requestPath),
  );
  const written = new Map<string, Response>();
  return async (request: Request) => {
    const path = new URL(request.url).pathname.replace(/^\/clusters\/[^/]+(?=\/leat\.)/, "");
    if (path.startsWith("/clusters/")) return new Response(evil, { status: 403 });
    if (path.endsWith("/WatchEvents")) return new Response(evil, { status: 503 });
    const key = `${path} ${request.headers.get("content-type")} ${await request.clone().text()}`;
    const before = written.get(key);
    if (before) return before.clone();
    const answer = (await handlers.get(path)?.(request)) ?? new Response(evil, { status: 404 });
    if (!lasting.has(path)) return answer;
    written.set(key, new Response(await answer.arrayBuffer(), answer));
    return (written.get(key) as Response).clone();
  };
}

const examples: Record<string, string> = { "/services/$": "cart@berlin", "/commits/$": `demo@${"4f2c".repeat(10)}` };
const paths = Object.keys(makeRouter(createMemoryHistory()).routesByPath)
  .filter((path) => path !== "/sign-in" && path !== "/parts") // neither shows what others wrote
  .map((path) => path.replaceAll(/\$\w*/g, examples[path] ?? "berlin"))
  .concat(["objects", "logs", "events", "diff", "revisions"].map((tab) => `/services/cart@berlin?tab=${tab}`))
  .concat("/services/cart@berlin?why=true", "/clusters?view=map&by=region", "/repositories/demo?webhook=github");

let built: Built;
beforeAll(async () => {
  built = await startBuilt();
});
afterAll(() => built?.close());

/** Opens a tab that notes what runs or is blocked. */
async function tab(): Promise<{ page: Page; broken: string[] }> {
  // Without motion, or axe would measure a colour on its way to another one.
  const page = await built.newPage({ viewport: { width: 390, height: 844 }, reducedMotion: "reduce" });
  const broken: string[] = [];
  await page.exposeFunction("leatReport", (text: string) => broken.push(text));
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => {
      const report = (globalThis as unknown as { leatReport: (text: string) => void }).leatReport;
      report(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}`);
    });
  });
  page.on("pageerror", (error) => broken.push(String(error)));
  page.on("dialog", () => broken.push("a dialog opened"));
  return { page, broken };
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// Markup is what an attacker writes. The other two take twice as long, and break a page that is slow.
test.for(isSiege ? ills : ills.slice(0, 1))("$name breaks no page", { timeout: 600_000 }, async (ill) => {
  built.answer = hostile(ill);
  const { page, broken } = await tab();
  const found: string[] = [];
  for (const path of paths) {
    await page.goto(built.base + path);
    // By selectors: a locator by role computes the roles of thousands of elements, again and again.
    await page.waitForFunction(() => {
      const first = document.querySelector("main :is(h1, h2, h3, [role=alert])");
      return first?.checkVisibility() && !document.querySelector("main [role=status] > .unseen");
    });
    const { width, title, elements, foreign, text } = await page.evaluate(() => ({
      width: document.documentElement.scrollWidth,
      title: document.title,
      elements: document.querySelectorAll("#app *").length,
      foreign: document.querySelectorAll(
        "#app :is(img, script, iframe, object, embed, form[action]), #app a:not([href^='/ui/'])",
      ).length,
      text: document.querySelector("main")?.textContent?.slice(0, 300) ?? "",
    }));
    const note = (what: string) => found.push(`${path}: ${what}`);
    if (width > 390) note(`it is ${width} px wide`);
    if (title === "broken") note("markup ran");
    if (foreign > 0) note(`${foreign} elements are not of the UI`);
    if (elements > 20_000) note(`it has ${elements} elements`);
    if (text.includes("This page broke")) note(text);
    if (broken.length > 0) note(broken.splice(0).join("; ").slice(0, 500));
    if (ill !== ills[0]) continue; // of the others, axe would read every text again
    await page.evaluate(axe);
    const findings = await page.evaluate(async () => {
      const { axe } = globalThis as unknown as { axe: typeof import("axe-core") };
      const { violations } = await axe.run(document.body, {
        runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
        resultTypes: ["violations"],
      });
      return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 200)}`);
    });
    for (const finding of findings) note(finding);
  }
  await page.close();
  expect(found).toEqual([]);
});
