// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { page, userEvent } from "vitest/browser";
import { Health } from "../src/gen/leat/type/v1/state_pb";
import { mostWaiting } from "../src/parts/xterm.ts";
import { failure } from "./cluster.ts";
import { execHub, exitCode, type FakeSocket, noSuchShell, success } from "./exec.ts";
import { type Answers, refusal } from "./hub.ts";
import { open } from "./open.tsx";
import { expectAccessible } from "./render.tsx";

const place = "/terminal/berlin?namespace=shop&pod=cart-7d4b9-aaaaa";
const button = (name: string) => page.getByRole("button", { name, exact: true });
const shown = () => document.querySelector(".xterm-rows")?.textContent ?? "";

const agent = {
  getInventory: () => ({
    objects: [
      {
        ref: { group: "apps", version: "v1", kind: "Deployment", namespace: "shop", name: "cart" },
        health: Health.HEALTHY,
      },
    ],
  }),
};

/** Opens a terminal, and starts the shell. */
async function started(change: Partial<Answers> = {}, from = place) {
  const { answers, sockets } = execHub();
  const opened = open(from, { ...answers, ...change });
  await expect.element(button("Start")).not.toHaveAttribute("aria-disabled");
  await button("Start").click();
  await expect.poll(() => sockets.length).toBe(1);
  const socket = sockets[0] as FakeSocket;
  return { ...opened, socket, sockets };
}

describe("a terminal", () => {
  test("says before it begins whether it is recorded, and runs nothing that an address asks for", async () => {
    const { answers, sockets, reviews } = execHub();
    const { router } = open(`${place}&container=proxy&command=rm%20-rf%20/`, {
      ...answers,
      tunnel: { getRecordingRules: () => ({ output: true, input: true, required: true }) },
    });
    await expect.element(page.getByText("every key, passwords included", { exact: false })).toBeVisible();
    await expect.element(page.getByText("If the recording ends, the session does.", { exact: false })).toBeVisible();
    await expect.element(page.getByText("Recorded", { exact: true })).toBeVisible();
    await expect.element(button("Start")).not.toHaveAttribute("aria-disabled");
    await expect.element(page.getByText("kubectl exec -it cart-7d4b9-aaaaa -n shop -c proxy -- sh")).toBeVisible();
    const facts = [...document.querySelectorAll("main dl > div")].map((fact) => fact.textContent);
    expect(facts).toEqual(["Clusterberlin", "Namespaceshop", "Podcart-7d4b9-aaaaa", "Containerproxy", "Shellsh"]);
    await expect.element(page.getByText("Your keys go to the program.", { exact: false })).toBeVisible();
    await expectAccessible();
    await page.getByRole("combobox", { name: "Shell" }).selectOptions("bash");
    await page.getByRole("combobox", { name: "Container" }).selectOptions("web");
    await expect
      .poll(() => router.state.location.search)
      .toEqual({
        namespace: "shop",
        pod: "cart-7d4b9-aaaaa",
        container: "web",
        command: "bash",
      });
    expect(sockets).toEqual([]);
    expect(reviews).toMatchObject([
      { spec: { resourceAttributes: { verb: "get", resource: "pods", subresource: "exec", namespace: "shop" } } },
    ]);
  });

  test("carries keys, output, pieces of characters and sizes, and ends with the program", async () => {
    const { socket } = await started();
    expect(document.querySelector("dl")).toBeNull();
    const url = new URL(socket.url);
    expect(url.pathname).toBe("/clusters/berlin/api/v1/namespaces/shop/pods/cart-7d4b9-aaaaa/exec");
    expect(url.search).toBe("?stdin=true&stdout=true&tty=true&command=sh");
    expect(socket.protocols).toEqual([
      "v5.channel.k8s.io",
      "v4.channel.k8s.io",
      "base64url.bearer.authorization.k8s.io.YS5iLmM",
    ]);
    socket.open();
    await expect.element(page.getByText("Shift F6 leaves the terminal")).toBeVisible();
    expect(socket.heard(4)).toMatch(/^\{"Width":\d+,"Height":\d+\}/);
    const crab = new TextEncoder().encode("\u{1f980} ready $ ");
    socket.say(1, crab.subarray(0, 2));
    socket.say(2, "");
    socket.say(1, crab.subarray(2));
    socket.say(2, "of errors");
    await expect.poll(shown).toContain("\u{1f980} ready $ of errors");
    await userEvent.keyboard("id{Enter}");
    await expect.poll(() => socket.heard(0)).toBe("id\r");
    await expectAccessible();
    await userEvent.keyboard("{Shift>}{F6}{/Shift}");
    await expect.element(button("End")).toHaveFocus();
    expect(socket.heard(0)).toBe("id\r");
    socket.say(3, exitCode(137).slice(0, 20));
    socket.say(3, exitCode(137).slice(20));
    await expect.element(page.getByText("ended by signal 9 (exit code 137)", { exact: false })).toBeVisible();
    await expect.element(button("Start again")).toBeVisible();
    expect(socket.isClosed).toBe(true);
    expect(shown()).toContain("ready $");
    await expectAccessible();
  });

  test("speaks the older protocol, too, and begins again", async () => {
    const { socket, sockets } = await started();
    socket.open("v4.channel.k8s.io");
    socket.say(3, success);
    await expect.element(page.getByText("The program has ended.").first()).toBeVisible();
    await button("Start again").click();
    await expect.poll(() => sockets.length).toBe(2);
    sockets[1]?.open();
    await button("End").click();
    expect(sockets[1]?.isClosed).toBe(true);
    expect(sockets[1]?.sent.at(-1)).toEqual(Uint8Array.of(255, 0));
    await expect.element(page.getByText("You have ended the session.").first()).toBeVisible();
  });

  test("asks before it closes while a program runs, and only then", async () => {
    const closes = () => dispatchEvent(new Event("beforeunload", { cancelable: true }));
    const { socket } = await started();
    socket.open();
    await expect.element(button("End")).toBeVisible();
    expect(closes()).toBe(false);
    socket.say(3, success);
    await expect.element(button("Start again")).toBeVisible();
    await expect.poll(closes).toBe(true);
  });

  test.each([
    [1001, "The hub is restarting"],
    [1008, "Your access was withdrawn"],
    [1014, "The cluster's agent has lost its connection"],
    [1006, "The connection has broken"],
  ])("says why a connection ended in the middle: %i", async (code, words) => {
    const { socket } = await started();
    socket.open();
    socket.say(1, "half a line");
    socket.end(code);
    await expect.element(page.getByText(words, { exact: false })).toBeVisible();
    await expect.element(button("Start again")).toBeVisible();
  });

  test("shows the words of the one who refused the connection", async () => {
    const words = 'the node of pod "cart-7d4b9-aaaaa" has no kubelet';
    const { answers, sockets } = execHub({
      before: (url) => (url.pathname.endsWith("/exec") ? failure(403, words) : undefined),
    });
    open(place, answers);
    await button("Start").click();
    await expect.poll(() => sockets.length).toBe(1);
    sockets[0]?.end(1006);
    await expect.element(page.getByText(words)).toBeVisible();
    await expect.element(page.getByText("The cluster does not allow this")).toBeVisible();
    await expectAccessible();
  });

  test.each([
    ["pod cart-7d4b9-aaaaa does not have a host assigned", "pod cart-7d4b9-aaaaa does not have a host assigned"],
    ["Upgrade request required", "A proxy on the way may not let WebSockets pass"],
  ])("tells a pod that cannot run it from a WebSocket that did not arrive: %s", async (message, words) => {
    const { answers, sockets } = execHub({
      before: (url) => (url.pathname.endsWith("/exec") ? failure(400, message) : undefined),
    });
    open(place, answers);
    await button("Start").click();
    await expect.poll(() => sockets.length).toBe(1);
    sockets[0]?.end(1006);
    await expect.element(page.getByText("The session could not begin")).toBeVisible();
    await expect.element(page.getByText(words, { exact: false })).toBeVisible();
  });

  test("says what to do about a container without the shell", async () => {
    const { socket } = await started({}, `${place}&command=bash`);
    socket.open();
    socket.say(3, noSuchShell);
    await expect.element(page.getByText("executable file not found", { exact: false })).toBeVisible();
    await expect.element(page.getByText("Try the other shell", { exact: false })).toBeVisible();
  });

  test("offers nothing that the cluster or the hub would refuse", async () => {
    const { answers, sockets } = execHub({}, false);
    open(place, answers);
    await expect
      .element(page.getByText("You may not open a terminal here: no RBAC policy matched").first())
      .toBeVisible();
    expect(document.querySelector("dl")).toBeNull();
    await expect.element(button("Start")).toHaveAttribute("aria-disabled", "true");
    await button("Start").click({ force: true });
    expect(sockets).toEqual([]);
    await expectAccessible();
  });

  test("shows the hub's words when the hub would refuse", async () => {
    const { answers, reviews } = execHub();
    open(place, { ...answers, fleet: { reviewAccess: () => ({ reason: "no binding of ada covers berlin" }) } });
    await expect.element(page.getByText("no binding of ada covers berlin", { exact: false }).first()).toBeVisible();
    expect(reviews).toEqual([]);
  });

  test("assumes a recording where the hub does not say", async () => {
    const { answers } = execHub();
    open(place, {
      ...answers,
      tunnel: {
        getRecordingRules() {
          throw refusal(Code.Unimplemented, "", "no such call");
        },
      },
    });
    await expect.element(page.getByText("Assume that it does", { exact: false })).toBeVisible();
    await expect.element(button("Start")).not.toHaveAttribute("aria-disabled");
  });

  test("a flood is drawn as fast as a screen can, and the rest is counted", async () => {
    const { socket } = await started();
    socket.open();
    await expect.element(button("End")).toBeVisible();
    const piece = new TextEncoder().encode("0123456789abcdef".repeat(4096));
    for (let sent = 0; sent < 50_000_000; sent += piece.length) socket.say(1, piece);
    await expect
      .element(page.getByText(/so 4\d\.\d megabytes were left out|so 4\d\.\d MB were left out/))
      .toBeVisible();
    expect(mostWaiting).toBeLessThan(10_000_000);
    await expect.poll(shown).toContain("0123456789abcdef");
    // What comes once it has caught up is drawn again.
    await expect
      .poll(() => {
        socket.say(1, "\r\ncaught up\r\n");
        return shown();
      })
      .toContain("caught up");
  });

  test("what a program writes cannot name the window, make links, or reach the clipboard", async () => {
    const { socket } = await started();
    socket.open();
    socket.say(1, "\u001b]0;owned\u0007\u001b]8;;https://evil.example\u0007harmless\u001b]8;;\u0007");
    socket.say(1, "\u001b]52;c;ZXZpbA==\u0007<img src=x onerror=alert(1)> \u001b[38;2;1;2;3mdark\u001b[0m\r\n");
    await expect.poll(shown).toContain("harmless<img src=x onerror=alert(1)> dark");
    expect(document.title).toBe("Terminal in cart-7d4b9-aaaaa · Leat");
    expect(document.querySelector("#app :is(img, a)")).toBeNull();
  });

  test("asks before it pastes several lines, and no paste presses keys", async () => {
    const { socket } = await started();
    socket.open();
    await expect.element(button("End")).toBeVisible();
    const paste = (text: string) => {
      const data = new DataTransfer();
      data.setData("text/plain", text);
      const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
      document.querySelector(".xterm-helper-textarea")?.dispatchEvent(event);
    };
    paste("one \u001b[201~line\u0003");
    await expect.poll(() => socket.heard(0)).toBe("one [201~line");
    paste("rm -r build\r\nmake\r\n");
    await expect.element(page.getByRole("heading", { name: "Paste 2 lines?" })).toBeVisible();
    expect(socket.heard(0)).toBe("one [201~line");
    await expectAccessible();
    await button("Paste").click();
    await expect.poll(() => socket.heard(0)).toBe("one [201~linerm -r build\rmake\r");
  });

  test("opens from a pod among the objects and in the logs of its service", async () => {
    const { answers } = execHub();
    open("/services/cart@berlin?tab=logs&pod=cart-7d4b9-aaaaa&container=proxy", { ...answers, agent });
    const link = page.getByRole("main").getByRole("link", { name: /^Terminal/ });
    await expect
      .element(link)
      .toHaveAttribute("href", "/ui/terminal/berlin?namespace=shop&pod=cart-7d4b9-aaaaa&container=proxy");
    await expectAccessible();
    await page.getByRole("tab", { name: "Objects" }).click();
    const row = (name: RegExp) => page.getByRole("row", { name });
    await expect.element(row(/^Deployment cart/)).toBeVisible();
    (row(/^Deployment cart/).element() as HTMLElement).focus();
    await userEvent.keyboard("{ArrowRight}");
    await expect.element(row(/^ReplicaSet/)).toBeVisible();
    (row(/^ReplicaSet/).element() as HTMLElement).focus();
    await userEvent.keyboard("{ArrowRight}");
    await expect.element(link).toHaveAttribute("href", "/ui/terminal/berlin?namespace=shop&pod=cart-7d4b9-aaaaa");
  });

  test("is disabled in the logs of people who may not, with the words of the one who refuses", async () => {
    const { answers } = execHub({}, false);
    open("/services/cart@berlin?tab=logs&pod=cart-7d4b9-aaaaa", { ...answers, agent });
    await expect.element(button("Terminal")).toHaveAttribute("aria-disabled", "true");
    await expect
      .element(button("Terminal"))
      .toHaveAttribute("title", "You may not open a terminal here: no RBAC policy matched");
  });

  test("an address without a pod says where terminals come from", async () => {
    open("/terminal/berlin");
    await expect.element(page.getByText("Terminals open from a pod")).toBeVisible();
    await expectAccessible();
  });
});
