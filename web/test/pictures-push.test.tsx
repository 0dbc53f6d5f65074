// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { applyPalette, GIFEncoder, quantize } from "gifenc";
import { expect, test } from "vitest";
import { commands, page } from "vitest/browser";
import { type Document, DocumentSchema } from "../src/gen/leat/fleet/v1/document_pb";
import { RevisionOutcome } from "../src/gen/leat/fleet/v1/resources_pb";
import { ServicePhase } from "../src/gen/leat/type/v1/state_pb";
import { ago } from "./hub.ts";
import { open } from "./open.tsx";
import { bytesOf, draw, expectAlike, isWriting, type Picture, parts, shoot, toBase64 } from "./picture.ts";

// The recording of a push that arrives, for README and the guide. One page stays open; its hub sends what a hub sends
// after a push, and each frame is taken when the page shows it. Each run makes the frames again, as with the pictures.

const path = "../docs/ui/push.gif";
const width = 960;
const height = 760;
/** README is read over slow networks, too. */
const mostBytes = 1_000_000;

const before = "8d1e0f3a7c6b5a49382716f5e4d3c2b1a0998877";
const pushed = "4f2c1e0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e";
const { HEALTHY, PROGRESSING, SYNCING } = ServicePhase;

interface Moment {
  phase: ServicePhase;
  /** The commit that the hub wants, and the one that the agent has applied. */
  wanted: string;
  applied: string;
  /** What the agent reports about the Deployment while it is not healthy. */
  waits?: string;
  /** What the page shows then. */
  shows: string[];
  /** How long the recording stays there. */
  delay: number;
}

const moments: Moment[] = [
  { phase: HEALTHY, wanted: before, applied: before, shows: ["Healthy", "8d1e0f3a", "Applied"], delay: 1600 },
  {
    phase: SYNCING,
    wanted: pushed,
    applied: before,
    shows: ["Syncing", "4f2c1e0a", "Not applied yet", "8d1e0f3a"],
    delay: 1600,
  },
  ...[1, 2].map((n) => ({
    phase: PROGRESSING,
    wanted: pushed,
    applied: pushed,
    waits: `${n} of 3 replicas are of the newest version`,
    shows: ["Progressing", "4f2c1e0a", "Applied", `${n} of 3 replicas are of the newest version`],
    delay: 1200,
  })),
  { phase: HEALTHY, wanted: pushed, applied: pushed, shows: ["Healthy", "4f2c1e0a", "12 of 12 healthy"], delay: 1800 },
];
/** The last frame is of what the service keeps about it. */
const lastDelay = 2400;

function serviceAt({ phase, wanted, applied, waits }: Moment): Document {
  const changedAt = wanted === before ? ago(180) : timestampFromMs(Date.now());
  return create(DocumentSchema, {
    object: {
      case: "service",
      value: {
        metadata: { name: "web" },
        spec: {
          cluster: "berlin",
          namespace: "shop",
          sources: [{ repository: "demo", ref: { selector: { case: "branch", value: "main" } }, path: "apps/web" }],
        },
        status: {
          phase,
          synced: applied === wanted,
          sources: [
            { snapshot: { commit: wanted, digest: wanted }, resolvedAt: wanted === before ? ago(2) : changedAt },
          ],
          report: {
            phase,
            phaseSince: changedAt,
            counts: { total: 12, healthy: waits ? 11 : 12, progressing: waits ? 1 : 0 },
            appliedDigests: [applied],
            appliedCommits: [applied],
            appliedAt: applied === before ? ago(180) : changedAt,
            objects: waits
              ? [
                  {
                    ref: { group: "apps", version: "v1", kind: "Deployment", namespace: "shop", name: "web" },
                    health: 2,
                    problem: { message: waits },
                  },
                ]
              : [],
          },
        },
      },
    },
  });
}

const revisions = () => ({
  revisions: [
    {
      number: 8n,
      outcome: RevisionOutcome.HEALTHY,
      commits: [pushed],
      plannedAt: timestampFromMs(Date.now() - 4000),
      healthyAt: timestampFromMs(Date.now()),
    },
    { number: 7n, outcome: RevisionOutcome.HEALTHY, commits: [before], plannedAt: ago(180.1), healthyAt: ago(180) },
  ],
});

/** Returns an animation in which each frame holds only what differs from the one before. */
function encode(frames: readonly Picture[], delays: readonly number[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8ClampedArray(frames.length * width * height * 4);
  for (const [i, { data }] of frames.entries()) all.set(data, i * data.length);
  const colours = quantize(all, 255);
  const same = colours.length;
  const gif = GIFEncoder();
  let last: Uint8Array | undefined;
  for (const [i, { data }] of frames.entries()) {
    const now = applyPalette(data, colours);
    gif.writeFrame(last ? now.map((colour, at) => (colour === last?.[at] ? same : colour)) : now, width, height, {
      ...(!last && { palette: [...colours, [0, 0, 0]] }),
      delay: delays[i] ?? 0,
      transparent: last !== undefined,
      transparentIndex: same,
      dispose: 1,
    });
    last = now;
  }
  gif.finish();
  return gif.bytes();
}

async function decode(data: Uint8Array<ArrayBuffer>): Promise<{ picture: Picture; delay: number }[]> {
  const decoder = new ImageDecoder({ data, type: "image/gif" });
  await Promise.all([decoder.tracks.ready, decoder.completed]);
  const frames = [];
  for (let frameIndex = 0; frameIndex < (decoder.tracks.selectedTrack?.frameCount ?? 0); frameIndex++) {
    const { image } = await decoder.decode({ frameIndex });
    frames.push({ delay: (image.duration ?? 0) / 1000, picture: draw(image) });
  }
  decoder.close();
  return frames;
}

test("a push arrives as the recording shows it", async () => {
  await page.viewport(width, height);
  document.documentElement.dataset.theme = "light";
  let now = moments[0] as Moment;
  let next = Promise.withResolvers<void>();
  open("/services/web@berlin", {
    fleet: {
      get: () => ({ document: serviceAt(now) }),
      async *watch(_, { signal }) {
        const end = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        while (!signal.aborted) {
          yield { document: serviceAt(now) };
          await Promise.race([next.promise, end]);
        }
      },
      listRevisions: revisions,
    },
  });
  const frames: Picture[] = [];
  for (const moment of moments) {
    now = moment;
    next.resolve();
    next = Promise.withResolvers();
    for (const words of ["Live", ...moment.shows])
      await expect.element(page.getByText(words, { exact: true }).first()).toBeVisible();
    frames.push(await shoot(width, height));
  }
  await page.getByRole("tab", { name: "Revisions" }).click();
  await expect.element(page.getByText("4 s", { exact: true })).toBeVisible();
  frames.push(await shoot(width, height));

  const delays = [...moments.map(({ delay }) => delay), lastDelay];
  if (isWriting) await commands.writeFile(path, toBase64(encode(frames, delays)), "base64");
  const bytes = bytesOf(await commands.readFile(path, "base64"));
  expect(bytes.length).toBeLessThan(mostBytes);
  const kept = await decode(bytes);
  expect(kept.map(({ delay }) => delay)).toEqual(delays);
  for (const [i, frame] of frames.entries()) expectAlike(parts((kept[i] as { picture: Picture }).picture), frame);
  for (const [i, { picture }] of kept.entries())
    expect(kept[i + 1]?.picture.data.every((value, at) => value === picture.data[at]) ?? false, `frame ${i}`).toBe(
      false,
    );
});
