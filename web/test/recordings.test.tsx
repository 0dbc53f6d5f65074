// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page } from "vitest/browser";
import type { ListRecordingsRequest } from "../src/gen/leat/tunnel/v1/tunnel_pb";
import { type Answers, refusal } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const button = (name: string) => page.getByRole("button", { name, exact: true });
const shown = () => document.querySelector(".xterm-rows")?.textContent ?? "";
const position = () => page.getByRole("slider", { name: "Position" });

const began = Date.UTC(2026, 10, 28, 9);
const recording = (id: string, change: object = {}) => ({
  id,
  cluster: "berlin",
  subject: "user:ada",
  namespace: "shop",
  pod: "cart-7d4b9-aaaaa",
  container: "web",
  command: ["bash", "-l"],
  beganAt: timestampFromMs(began),
  writtenAt: timestampFromMs(began + 65_000),
  size: 48_300n,
  ...change,
});

const about = `"leat":{"subject":"user:ada","cluster":"berlin","namespace":"shop","pod":"cart-7d4b9-aaaaa"}`;
const header = `{"version":2,"width":60,"height":12,${about}}\n`;
const file = `${header}[0.5,"o","$ make\\r\\n"]\n[30,"o","first \\u001b[31mERROR\\u001b[0m here\\r\\n"]\n[60.5,"o","all done\\r\\n"]\n`;

/** Returns the answers of a hub that has one recording, which arrives in two pieces. */
const playing = (text: string, fail?: () => never): Partial<Answers> => ({
  tunnel: {
    async *getRecording() {
      const bytes = new TextEncoder().encode(text);
      yield { data: bytes.subarray(0, 21) };
      yield { data: bytes.subarray(21) };
      fail?.();
    },
  },
});

describe("the list of recordings", () => {
  test("says whose, where, how long and how large they are, and loads older ones", async () => {
    const asked: ListRecordingsRequest[] = [];
    open("/recordings?by=ada&cluster=shop/nairobi&since=24h", {
      tunnel: {
        listRecordings(request) {
          asked.push(request);
          const isFirst = request.page?.token === "";
          return {
            recordings: [recording(isFirst ? "1a" : "2b"), recording("3c", { command: [], pod: "<b>pod</b>" })],
            nextPageToken: isFirst ? "older" : "",
            unanswered: ["hub-1"],
          };
        },
      },
    });
    await expect.element(page.getByText("berlin · shop/cart-7d4b9-aaaaa · web").first()).toBeVisible();
    await expect.element(page.getByText("1:05").first()).toBeVisible();
    await expect.element(page.getByText("48.3 kB").first()).toBeVisible();
    await expect.element(page.getByText("berlin · shop/<b>pod</b> · web")).toBeVisible();
    await expect.element(page.getByText("a replica of the hub did not answer: hub-1", { exact: false })).toBeVisible();
    await expect
      .element(page.getByText("leat session list --user ada --cluster shop/nairobi --since 24h"))
      .toBeVisible();
    await expectAccessible();
    await button("Show older ones").click();
    await expect.element(page.getByText("No older recordings match.")).toBeVisible();
    expect(page.getByRole("link", { name: "Play the session of ada in cart-7d4b9-aaaaa" }).elements().length).toBe(2);
    expect(asked[0]).toMatchObject({ subject: "user:ada", cluster: "shop.nairobi" });
    expect(asked[0]?.beganFrom).toBeDefined();
    await page.getByRole("link", { name: "Play the session of ada in <b>pod</b>" }).click();
    await expect.element(page.getByRole("heading", { level: 2 })).toBeVisible();
  });

  test("says how recordings come to be where there is none", async () => {
    open("/recordings", { tunnel: { listRecordings: () => ({}) } });
    await expect.element(page.getByText("tunnel-record-dir", { exact: false })).toBeVisible();
    await expectAccessible();
  });

  test("has the hub's words for people who may not see it", async () => {
    open("/recordings", {
      tunnel: {
        listRecordings() {
          throw refusal(Code.PermissionDenied, "ACCESS_DENIED", 'you lack the permission "list recordings" in the hub');
        },
      },
    });
    await expect.element(page.getByText('you lack the permission "list recordings" in the hub')).toBeVisible();
    await expectAccessible();
  });
});

describe("a recording", () => {
  test("is played with speed, from any place, and without idle times", async () => {
    const { router } = open("/recordings/1a?speed=8", playing(file));
    await expect.element(page.getByRole("heading", { name: "Session in cart-7d4b9-aaaaa" })).toBeVisible();
    await expect.element(page.getByText("leat session play 1a")).toBeVisible();
    await expect.element(page.getByText("0:00 of 0:02").first()).toBeVisible();
    expect(shown()).not.toContain("make");
    await expectAccessible();
    await button("Play").click();
    await expect.element(button("Play again")).toBeVisible();
    await expect.poll(shown).toContain("all done");
    expect(shown()).toContain("first ERROR here");

    // A place before the present one is as it was then, and in the address once it plays no more.
    await position().fill("1.6");
    await expect.poll(shown).toMatch(/first ERROR here(?!.*all done)/);
    await expect.poll(() => router.state.location.search).toEqual({ speed: 8, at: 30 });
    await page.getByRole("checkbox", { name: "Skip idle times" }).click();
    await expect.element(page.getByText("0:30 of 1:00").first()).toBeVisible();
    expect(router.state.location.search).toEqual({ speed: 8, at: 30, idle: true });
    await page.getByRole("combobox", { name: "Speed" }).selectOptions("4 ×");
    await expect.poll(() => router.state.location.search).toEqual({ speed: 4, at: 30, idle: true });
  });

  test("opens at the place of its address, and what is found leads to its place", async () => {
    const { router } = open("/recordings/1a?at=0.6&find=error", playing(file));
    await expect.poll(shown).toContain("make");
    await expect.element(page.getByText("1 place")).toBeVisible();
    expect(shown()).not.toContain("ERROR");
    await expectAccessible();
    await page.getByRole("button", { name: /ERROR/ }).click();
    await expect.poll(shown).toContain("first ERROR here");
    await expect.poll(() => router.state.location.search).toMatchObject({ at: 30, find: "error" });
    await page.getByRole("textbox", { name: "Find in the output" }).fill("nowhere");
    await expect.element(page.getByText("Nothing found")).toBeVisible();
  });

  test.each([
    ["torn", `${header}[0.5,"o","so far"]\n[1,"o","ha`, "breaks off within its last line"],
    ["damaged", `${header}[0.5,"o","so far"]\n[1,"o"]\n[2,"o","not"]\n`, "is damaged in line 3"],
  ])("that is %s says so, and plays what is right", async (_, text, words) => {
    open("/recordings/1a?at=100", playing(text));
    await expect.element(page.getByText(words, { exact: false })).toBeVisible();
    await expect.poll(shown).toContain("so far");
    expect(shown()).not.toContain("not");
  });

  test("whose rest does not arrive is played so far, and asked for again", async () => {
    open(
      "/recordings/1a?at=10",
      playing(file, () => {
        throw refusal(Code.PermissionDenied, "ACCESS_DENIED", "you may no longer see it");
      }),
    );
    await expect.element(page.getByText("The rest of the recording did not arrive")).toBeVisible();
    await expect.element(page.getByText("you may no longer see it")).toBeVisible();
    await expect.poll(shown).toContain("make");
    await expectAccessible();
  });

  test("that is another file, or empty, says so", async () => {
    open("/recordings/1a", playing("<html><script>alert(1)</script>\n"));
    await expect.element(page.getByText("This is no recording of a terminal")).toBeVisible();
    await expectAccessible();
  });

  test("that was never written to says so", async () => {
    open("/recordings/1a", playing(header));
    await expect.element(page.getByText("Nothing was written to this terminal.")).toBeVisible();
  });

  test("that is not there has the hub's words", async () => {
    open("/recordings/1a", {
      tunnel: {
        // biome-ignore lint/correctness/useYield: the hub refuses before the first piece
        async *getRecording() {
          throw refusal(Code.NotFound, "NOT_FOUND", 'there is no recording "1a"');
        },
      },
    });
    await expect.element(page.getByText('there is no recording "1a"')).toBeVisible();
    await expectAccessible();
  });

  test("draws, and reaches nothing", async () => {
    open(
      "/recordings/1a?at=9",
      playing(
        `${header}[1,"o","\\u001b]0;owned\\u0007\\u001b]8;;https://evil.example\\u0007link\\u001b]52;c;ZQ==\\u0007<img src=x>"]\n`,
      ),
    );
    await expect.poll(shown).toContain("link<img src=x>");
    expect(document.title).toBe("Session in cart-7d4b9-aaaaa · Leat");
    expect(document.querySelector("#app main :is(img, a[href^='https:'])")).toBeNull();
  });
});
