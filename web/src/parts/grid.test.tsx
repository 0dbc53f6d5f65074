// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { expect, test, vi } from "vitest";
import { page, userEvent } from "vitest/browser";
import { render } from "../../test/render.tsx";
import { type Column, Grid } from "./grid.tsx";

interface Row {
  name: string;
}

const columns: Column<Row>[] = [
  { id: "name", title: "Name", width: "1fr", place: "title", order: "name", cell: (row) => row.name },
  { id: "phase", title: "Phase", width: "8rem", cell: () => "Healthy" },
];

function show(count: number, more: Partial<Parameters<typeof Grid<Row>>[0]> = {}) {
  return render(
    <div style={{ blockSize: 400 }}>
      <Grid
        label="Services"
        columns={columns}
        count={count}
        row={(index) => ({ name: `web-${index}` })}
        rowKey={(row) => row.name}
        {...more}
      />
    </div>,
  );
}

const focused = () => document.activeElement?.textContent;

test("it counts all rows, and has the ones in sight alone", async () => {
  const host = show(200_000);
  await expect.element(page.getByRole("grid", { name: "Services" })).toHaveAttribute("aria-rowcount", "200001");
  await expect.element(page.getByText("web-0", { exact: true })).toBeVisible();
  expect(host.querySelectorAll("[data-index]").length).toBeLessThan(60);
});

test("one row is in the tab order, and the keys move it", async () => {
  const onOpen = vi.fn();
  show(1000, { onOpen });
  await expect.element(page.getByText("web-0", { exact: true })).toBeVisible();
  await userEvent.keyboard("{Tab}");
  await expect.poll(focused).toBe("web-0Healthy");
  await userEvent.keyboard("{ArrowDown}{ArrowDown}");
  await expect.poll(focused).toBe("web-2Healthy");
  await userEvent.keyboard("{ArrowUp}");
  await expect.poll(focused).toBe("web-1Healthy");
  await userEvent.keyboard("{End}");
  await expect.poll(focused).toBe("web-999Healthy");
  await userEvent.keyboard("{Enter}");
  expect(onOpen).toHaveBeenLastCalledWith({ name: "web-999" });
  await userEvent.keyboard("{Home}");
  await expect.poll(focused).toBe("web-0Healthy");
});

test("the focus survives when its row scrolls out of sight", async () => {
  const host = show(1000);
  await expect.element(page.getByText("web-0", { exact: true })).toBeVisible();
  await userEvent.keyboard("{Tab}");
  await expect.poll(focused).toBe("web-0Healthy");
  const scroller = host.querySelector("[role=grid]")?.parentElement as HTMLElement;
  scroller.scrollTop = 20_000;
  await expect.poll(() => host.textContent).toContain("web-560");
  expect(focused()).toBe("web-0Healthy");
});

test("it asks for the rows in sight", async () => {
  const onRange = vi.fn();
  show(1000, { onRange });
  await expect.poll(() => onRange.mock.lastCall?.[0]).toBe(0);
  expect(onRange.mock.lastCall?.[1]).toBeLessThan(20);
});

test("a title asks for its order, and then for the reverse", async () => {
  const onOrder = vi.fn();
  show(10, { order: "name", onOrder });
  const title = page.getByRole("columnheader", { name: /Name/ });
  await expect.element(title).toHaveAttribute("aria-sort", "ascending");
  await page.getByRole("button", { name: /Name/ }).click();
  expect(onOrder).toHaveBeenCalledWith("-name");
});

test("a row that is on its way keeps its place", async () => {
  const host = show(3, { row: (index) => (index === 1 ? undefined : { name: `web-${index}` }) });
  await expect.element(page.getByText("web-2", { exact: true })).toBeVisible();
  expect(host.querySelectorAll("[data-index]")).toHaveLength(3);
});
