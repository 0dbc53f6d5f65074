// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useRef, useState } from "react";
import { orGone } from "./gone.ts";
import styles from "./screen.module.css";
import { Skeleton } from "./states.tsx";
import type { Screen as Made, ScreenOptions } from "./xterm.ts";

/**
 * Screen is a terminal's screen. Its options count when it is made; another key makes another one. The page learns of
 * it when its part has loaded, and loses it when the component goes.
 */
export function Screen({ options, onReady }: { options: ScreenOptions; onReady: (screen: Made) => void }) {
  const host = useRef<HTMLDivElement>(null);
  const first = useRef({ options, onReady });
  const [state, setState] = useState<"loading" | "ready" | { broken: unknown }>("loading");
  useEffect(() => {
    let made: Made | undefined;
    let isOver = false;
    orGone(import("./xterm.ts"))
      .then(({ makeScreen }) => {
        if (isOver || !host.current) return;
        made = makeScreen(host.current, first.current.options);
        setState("ready");
        first.current.onReady(made);
      })
      .catch((broken: unknown) => {
        if (!isOver) setState({ broken });
      });
    return () => {
      isOver = true;
      made?.dispose();
    };
  }, []);
  if (typeof state === "object") throw state.broken;
  return (
    <div className={styles.frame}>
      {state === "loading" && <Skeleton lines={4} />}
      <div ref={host} className={styles.screen} />
    </div>
  );
}
