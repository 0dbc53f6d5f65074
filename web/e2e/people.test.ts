// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, newcomer, typeToken } from "./browser.ts";
import { Cluster } from "./cluster.ts";
import { GitHost } from "./git.ts";
import { Parts } from "./parts.ts";
import { Provider } from "./provider.ts";

// What people do in the pods of a service, and to the service. The hub is of programs, its cluster has pods that answer,
// and the browser is real.

const folder = mkdtempSync(join(tmpdir(), "leat-people-"));
const at = (name: string) => {
  mkdirSync(join(folder, name));
  return join(folder, name);
};
const cluster = new Cluster(at("cluster"));
const git = new GitHost(at("git"));
const parts = new Parts(
  at("parts"),
  { name: "edge", kubeconfig: cluster.kubeconfig },
  {
    distributor: { LEAT_ALLOW_LOCAL_AGENTS: "true" }, // the provider is one
    tunnel: { LEAT_TUNNEL_RECORD_DIR: at("recordings"), LEAT_TUNNEL_RECORD_REQUIRED: "true" },
  },
);
const provider = new Provider();
let browser: Browser;

const namespace = (name: string) => `apiVersion: v1\nkind: Namespace\nmetadata: {name: ${name}}\n`;
const configMap = (namespace: string, name: string, words: string) =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}, namespace: ${namespace}}\ndata: {text: "${words}"}\n`;
const deployment = (name: string) => `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ${name}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "registry.example.com/web:1"}]}
`;

beforeAll(async () => {
  await Promise.all([cluster.start(), git.start()]);
  git.push({
    "shop/namespace.yaml": () => namespace("shop"),
    "shop/web.yaml": () => deployment("shop"),
    "stall/namespace.yaml": () => namespace("stall"),
    "stall/web.yaml": () => deployment("stall"),
    "stall/settings.yaml": () => ["a", "b", "c", "d"].map((name) => configMap("stall", name, "1")).join("---\n"),
    "kiosk/namespace.yaml": () => namespace("kiosk"),
    "kiosk/web.yaml": () => deployment("kiosk"),
    "kiosk/greeting.yaml": () => configMap("kiosk", "greeting", "hello"),
  });
  await parts.start();
  const issuer = await provider.start(parts.origin, "carol=developers", "mallory=visitors");
  await parts.apply(`
apiVersion: leat.dev/v1
kind: Repository
metadata: {name: fleet}
spec: {url: ${git.repository}, pollInterval: 10s}
---
apiVersion: leat.dev/v1
kind: Service
metadata: {name: shop}
spec: {cluster: edge, namespace: shop, sources: [{repository: fleet, ref: {branch: main}, path: shop}]}
---
apiVersion: leat.dev/v1
kind: Service
metadata: {name: stall}
spec: {cluster: edge, namespace: stall, sources: [{repository: fleet, ref: {branch: main}, path: stall}]}
---
apiVersion: leat.dev/v1
kind: Service
metadata: {name: kiosk}
spec: {cluster: edge, namespace: kiosk, sources: [{repository: fleet, ref: {branch: main}, path: kiosk}]}
---
apiVersion: leat.dev/v1
kind: User
metadata: {name: ada}
---
apiVersion: leat.dev/v1
kind: AccessBinding
metadata: {name: ada-sees-the-shop}
spec: {users: [ada], clusters: {names: [edge]}, role: viewer}
---
apiVersion: leat.dev/v1
kind: User
metadata: {name: bob}
---
apiVersion: leat.dev/v1
kind: AccessBinding
metadata: {name: bob-runs-edge}
spec: {users: [bob], clusters: {names: [edge]}, role: operator}
---
apiVersion: leat.dev/v1
kind: Cluster
metadata: {name: far}
---
apiVersion: leat.dev/v1
kind: Service
metadata: {name: till}
spec: {cluster: far, namespace: till, sources: [{repository: fleet, ref: {branch: main}, path: shop}]}
---
apiVersion: leat.dev/v1
kind: IdentityProvider
metadata: {name: corp}
spec:
  title: Example Corp
  issuer: ${issuer}
  clientId: leat
  clientSecret: ${provider.secret}
  require: [{claim: groups, values: [developers]}]
---
apiVersion: leat.dev/v1
kind: AccessBinding
metadata: {name: developers-see-edge}
spec: {groups: ["corp:developers"], clusters: {names: [edge]}, role: viewer}
`);
  await parts.leat("wait", "service/shop", "--for=healthy");
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await provider.stop();
  await parts.stop();
  await cluster.stop();
  git.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Opens a page in a browser of its own, signed in with an API token. */
async function open(path: string, token: string, complaints?: string[]): Promise<Page> {
  const page = await (await newcomer(browser, complaints)).newPage();
  await page.goto(`${parts.origin}/ui${path}`);
  await typeToken(page, token);
  return page;
}

/** Waits until a terminal shows a text. Its rows are made of many pieces. */
const shows = (page: Page, words: string) =>
  page.waitForFunction(
    (text) => document.querySelector(".xterm-rows")?.textContent?.replaceAll("\u00a0", " ").includes(text),
    words,
  );

test("a person reads a log, opens a shell that says that it is recorded, and an administrator replays it", async () => {
  const complaints: string[] = [];
  const page = await open("/services/shop@edge?tab=logs", parts.admin, complaints);
  await page.getByText("The container has begun.").waitFor();
  cluster.write("order 4711 is paid");
  await page.getByText("order 4711 is paid").waitFor();

  const pod = cluster.kubectl("get", "pods", "-n", "shop", "-o", "name").replace("pod/", "");
  await page.getByRole("combobox", { name: "Pod" }).selectOption(pod);
  const opened = page.context().waitForEvent("page");
  await page.getByRole("link", { name: /^Terminal/ }).click();
  const terminal = await opened;
  await terminal.getByText("This session is recorded: everything that appears in the terminal.").waitFor();
  await terminal.getByText("If the recording ends, the session does.").waitFor();
  await terminal.locator("button:not([aria-disabled])", { hasText: "Start" }).click();
  await terminal.getByText("Shift F6 leaves the terminal").waitFor();
  await terminal.keyboard.type("echo the sum is $((40+2))\n");
  await shows(terminal, "the sum is 42");
  await terminal.keyboard.type("exit\n");
  await terminal.getByText("The program has ended.").waitFor();
  await terminal.close();

  await page.getByRole("link", { name: "Recordings" }).click();
  await page.getByRole("link", { name: `Play the session of admin in ${pod}` }).click();
  await page.getByRole("heading", { name: `Session in ${pod}` }).waitFor();
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await shows(page, "the sum is 42");
  expect(complaints).toEqual([]);

  // Who may look at pods, and not run something in them, is told so and offered nothing.
  const token = (await parts.leat("create", "token", "ada", "--label", "browser")).trim();
  const ada = await open(`/services/shop@edge?tab=logs&pod=${pod}`, token);
  await ada.getByText("order 4711 is paid").waitFor();
  const offered = ada.getByRole("button", { name: "Terminal" });
  await offered.and(ada.locator("[title^='You may not open a terminal here']")).waitFor();
  expect(await offered.getAttribute("aria-disabled")).toBe("true");
  await ada.goto(`${parts.origin}/ui/terminal/edge?namespace=shop&pod=${pod}`);
  await ada.getByText("You may not open a terminal here").first().waitFor();
  expect(await ada.getByRole("button", { name: "Start" }).getAttribute("aria-disabled")).toBe("true");
  await ada.goto(`${parts.origin}/ui/recordings`);
  await ada.getByText('no binding gives ada the permission "list recordings" there').waitFor();
  expect(await ada.getByRole("link", { name: /^Play/ }).count()).toBe(0);
});

test("a person signs in with a provider, sees what their groups give, and is told why a sign-in is refused", async () => {
  const complaints: string[] = [];
  const context = await newcomer(browser, complaints);
  const page = await context.newPage();
  const asked = "/ui/services/shop@edge?tab=revisions";
  await page.goto(parts.origin + asked);
  await page.getByRole("link", { name: "Continue with Example Corp" }).click();
  await page.getByLabel("Username").fill("carol");
  await page.getByLabel("Password").fill(provider.password);
  await page.getByRole("button", { name: "Sign in" }).click();

  // Back where the person wanted to be, with what the provider's group gives and no more.
  await page.getByRole("button", { name: "Signed in as corp.carol" }).waitFor();
  await page.waitForURL(parts.origin + asked);
  await page.getByRole("row", { name: /Healthy/ }).waitFor();
  await page.locator("button[title^='No binding lets you sync services here.']", { hasText: "Sync now" }).waitFor();
  await page.getByRole("link", { name: "Services" }).first().click();
  await page.getByRole("link", { name: "shop", exact: true }).first().waitFor();
  expect(await page.getByRole("link", { name: "till", exact: true }).count()).toBe(0);
  expect(JSON.parse(await parts.leat("get", "sessions", "-o", "json"))).toMatchObject({
    items: [{ person: "corp.carol", client: "browser", groups: ["corp:developers"] }],
  });

  await page.getByRole("button", { name: "Signed in as corp.carol" }).click();
  // The page leaves the session at once. The cookie goes with the hub's answer.
  const signedOut = page.waitForResponse(/SessionService\/SignOut$/);
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await page.getByRole("link", { name: "Continue with Example Corp" }).waitFor();
  expect((await signedOut).status()).toBe(200);
  const cookies = async () => (await context.cookies(parts.origin)).map(({ name }) => name);
  expect(await cookies()).toEqual([]);
  expect(await parts.leat("get", "sessions")).not.toContain("carol");

  // In none of the groups that the hub lets in.
  await page.getByRole("link", { name: "Continue with Example Corp" }).click();
  await page.getByLabel("Username").fill("mallory");
  await page.getByLabel("Password").fill(provider.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "You are not let in." }).waitFor();
  await page.getByText("groups").first().waitFor();

  // Not agreed.
  await page.goto(`${parts.origin}/ui/`);
  await page.getByRole("link", { name: "Continue with Example Corp" }).click();
  await page.getByRole("button", { name: "Refuse" }).click();
  await page.getByRole("heading", { name: "Example Corp did not sign you in: access_denied." }).waitFor();

  // An answer to a question that this browser did not ask.
  await page.goto(`${parts.origin}/login/callback?code=stolen&state=made-up`);
  await page.getByRole("heading", { name: /^This sign-in did not begin in this browser/ }).waitFor();
  expect(await cookies()).toEqual([]);
  expect(complaints).toEqual([]);
});

/** Answers the dialog that asks whether to do something, with a reason. */
async function agree(page: Page, verb: string, reason: string) {
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Reason (optional)" }).fill(reason);
  await dialog.getByRole("button", { name: verb, exact: true }).click();
  await dialog.waitFor({ state: "detached" });
}

test("a person agrees to deletions that the agent's guard holds back, and they are done", async () => {
  const page = await open("/services/stall@edge", parts.admin);
  // How many objects are healthy is in the page, too, from the beginning.
  const phase = page.getByText("Healthy", { exact: true }).first();
  await phase.waitFor();
  git.push({ "stall/web.yaml": () => undefined, "stall/settings.yaml": () => undefined });
  await page.getByRole("button", { name: "Sync now" }).click();
  await page.getByRole("heading", { name: "Deletions that wait for a person" }).waitFor();
  const list = page.getByRole("region", { name: "Objects that would go" });
  await list.getByText("Deployment.apps web stall").waitFor();
  expect(await list.getByRole("listitem").count()).toBe(5);
  const left = () =>
    cluster.kubectl("get", "deployments,configmaps", "-n", "stall", "-l", "leat.dev/service", "-o", "name");
  expect(left()).toContain("deployment.apps/web");

  await page.getByRole("button", { name: "Confirm deletions" }).click();
  const dialog = page.getByRole("dialog", { name: "Delete these objects of stall@edge" });
  const confirm = dialog.getByRole("button", { name: "Delete 5 objects" });
  await confirm.waitFor();
  expect(await confirm.getAttribute("aria-disabled")).toBe("true");
  await dialog.getByRole("textbox").first().fill("stall@edge");
  await agree(page, "Delete 5 objects", "the stall has closed");
  await page.getByRole("heading", { name: "Deletions that wait for a person" }).waitFor({ state: "detached" });
  // The list goes when the agent begins, and this comes when it has ended.
  await phase.waitFor();
  cluster.kubectl("wait", "--for=delete", "deployment/web", "-n", "stall", "--timeout=240s");
  expect(left()).toBe("");
});

test("a person rolls a broken push back, and releases the service when it is mended", async () => {
  const greeting = (words: string) => () => configMap("kiosk", "greeting", words);
  const shown = () => cluster.kubectl("get", "configmap", "greeting", "-n", "kiosk", "-o", "jsonpath={.data.text}");
  const page = await open("/services/kiosk@edge?tab=revisions", parts.admin);
  await page.getByRole("row", { name: /^1 Healthy/ }).waitFor();
  expect(shown()).toBe("hello");

  git.push({
    "kiosk/greeting.yaml": greeting("broken"),
    "kiosk/web.yaml": (yaml) => yaml.replace(/replicas: 1/, "replicas: -1"),
  });
  await page.getByRole("button", { name: "Sync now" }).click();
  await page.getByRole("row", { name: /^2 Failed/ }).waitFor();
  expect(shown()).toBe("broken");

  await page.getByRole("button", { name: "Roll back to revision 1" }).click();
  await agree(page, "Roll back", "nobody can buy anything");
  await page.getByText("Pinned to revision 1.").first().waitFor();
  await page.getByRole("row", { name: /^3 Healthy/ }).waitFor();
  expect(shown()).toBe("hello");
  await page.getByRole("tab", { name: "Overview" }).click();
  await page.getByText(/^Pinned to revision 1 by .*admin/).waitFor();

  git.push({
    "kiosk/greeting.yaml": greeting("mended"),
    "kiosk/web.yaml": (yaml) => yaml.replace("replicas: -1", "replicas: 1"),
  });
  await page.getByRole("button", { name: "Release the pin" }).click();
  await agree(page, "Release the pin", "the push is mended");
  await page.getByRole("button", { name: "Release the pin" }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Sync now" }).click();
  await page.getByRole("tab", { name: "Revisions" }).click();
  // The broken push may come once more, before the hub has fetched the one that mends it.
  await page.getByRole("row", { name: /^[45] Healthy/ }).waitFor();
  expect(shown()).toBe("mended");
});

test("a session that is ended under an open page asks to sign in again, and nothing that was typed is lost", async () => {
  const token = (await parts.leat("create", "token", "bob", "--label", "desk")).trim();
  const place = "/services/kiosk@edge?tab=objects";
  const page = await open(place, token);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  const reason = page.getByRole("textbox", { name: "Reason (optional)" });
  await reason.fill("the kiosk moves to the other street");
  const tokens = JSON.parse(await parts.leat("get", "tokens", "-o", "json"));
  const own = tokens.items.find((each: Record<string, string>) => each.user === "bob" && each.label === "browser");
  const from = performance.now();
  await parts.leat("delete", `token/${own.id}`);
  await page.getByText("Your session has ended. Sign in again to continue where you were.").waitFor();
  process.stdout.write(`session ended, said after ${((performance.now() - from) / 1000).toFixed(1)} s\n`);
  await typeToken(page, token);
  await page.waitForURL(`${parts.origin}/ui${place}`);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  expect(await reason.inputValue()).toBe("the kiosk moves to the other street");
});
