// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

import { Link, Outlet, useMatchRoute, useNavigate, useRouterState } from "@tanstack/react-router";
import {
  type ComponentType,
  lazy,
  type ReactNode,
  Suspense,
  useCallback,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { useHub } from "../hub/hub.ts";
import { type Link as LinkState, useConnection } from "../hub/live.ts";
import { classes } from "../parts/classes.ts";
import { Icon, type IconName } from "../parts/icon.tsx";
import { Menu } from "../parts/overlay.tsx";
import { type Asked, Palette } from "../parts/palette.tsx";
import { Stale } from "../parts/phase.tsx";
import { Skeleton } from "../parts/states.tsx";
import { StatusMessages, say } from "../parts/status.tsx";
import { text } from "../text/en.ts";
import { backTo, rememberPlace } from "./back.ts";
import styles from "./shell.module.css";
import { setTheme, themes, useTheme } from "./theme.ts";
import { NewBuild } from "./upgrade.tsx";

const Finder = lazy<ComponentType<{ asked: Asked; onClose: () => void }>>(() =>
  import("./finder.tsx").then(
    ({ Finder }) => ({ default: Finder }),
    () => ({ default: NoFinder }),
  ),
);

type Place =
  | "/"
  | "/services"
  | "/clusters"
  | "/repositories"
  | "/rollouts"
  | "/global-services"
  | "/fleet-sources"
  | "/image-policies"
  | "/projects"
  | "/configuration"
  | "/access"
  | "/audit"
  | "/recordings";

const places: { to: Place; label: string; icon: IconName }[] = [
  { to: "/", label: text.problems, icon: "alert" },
  { to: "/services", label: text.services, icon: "service" },
  { to: "/clusters", label: text.clusters, icon: "cluster" },
  { to: "/repositories", label: text.repositories, icon: "repository" },
  { to: "/rollouts", label: text.rollouts, icon: "rollout" },
  { to: "/global-services", label: text.globalServices, icon: "global" },
  { to: "/fleet-sources", label: text.fleetSources, icon: "folder" },
  { to: "/image-policies", label: text.imagePolicies, icon: "tag" },
  { to: "/projects", label: text.projects, icon: "project" },
  { to: "/configuration", label: text.configuration, icon: "sliders" },
  { to: "/access", label: text.access, icon: "key" },
  { to: "/audit", label: text.audit, icon: "clock" },
  { to: "/recordings", label: text.recordings, icon: "system" },
];

/** So many places fit below a narrow screen; a menu beside them has the others. */
const mostNarrow = 4;

/** Names the page in the tab, and has screen readers read the name when the page changes. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = text.titleOf(title);
  }, [title]);
}

export const useSignIn = () => {
  const { tokens } = useHub();
  return useSyncExternalStore(tokens.subscribe, tokens.current);
};

/**
 * Shell is what is around every page. It sends people who are not signed in to the sign-in page, and back to where they
 * were afterwards.
 */
export function Shell() {
  const hub = useHub();
  const signIn = useSignIn();
  const navigate = useNavigate();
  const matches = useMatchRoute();
  const isSignInPage = matches({ to: "/sign-in" }) !== false;
  const href = useRouterState({ select: (state) => state.location.href });
  const [failed, setFailed] = useState(false);

  useEffect(() => {
    // A link with a code signs in by itself; resuming first would lose the code's minute.
    if (signIn.state === "unknown" && !isSignInPage) hub.tokens.resume().catch(() => setFailed(true));
  }, [hub, signIn.state, isSignInPage]);

  useEffect(() => {
    if ((signIn.state === "out" || failed) && !isSignInPage) {
      rememberPlace(href);
      void navigate({ to: "/sign-in", replace: true });
    } else if (signIn.state === "in" && isSignInPage) {
      void navigate({ ...backTo(), replace: true });
    }
  }, [signIn.state, failed, isSignInPage, href, navigate]);

  if (isSignInPage) {
    return (
      <div className={styles.alone}>
        <main id="content">
          <Outlet />
        </main>
        <StatusMessages />
      </div>
    );
  }
  if (signIn.state !== "in") return <Skeleton label={text.signingIn} />;
  // A terminal has a window for itself.
  if (matches({ to: "/terminal/$" }) !== false) {
    return (
      <div className={styles.whole}>
        <main id="content">
          <Suspense fallback={<Skeleton />}>
            <Outlet />
          </Suspense>
        </main>
        <StatusMessages />
      </div>
    );
  }
  return (
    <Frame person={signIn.person.name}>
      <Suspense fallback={<Skeleton />}>
        <Outlet />
      </Suspense>
    </Frame>
  );
}

function Frame({ person, children }: { person: string; children: ReactNode }) {
  const hub = useHub();
  const navigate = useNavigate();
  const theme = useTheme();
  const content = useRef<HTMLElement>(null);
  const [isFinding, setFinding] = useState(false);
  const stopFinding = useCallback(() => setFinding(false), []);
  const isLost = useConnection()?.link === "reconnecting";
  const path = useRouterState({ select: (state) => state.location.pathname });
  const first = useRef(true);

  // A new page begins at its top, and the focus with it, as in a document that was loaded.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the path is what changes
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    content.current?.scrollTo(0, 0);
    // On a narrow screen the pages scroll sideways.
    document.querySelector("nav [aria-current=page]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    content.current?.focus({ preventScroll: true });
  }, [path]);

  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const isTyping =
        (event.target as HTMLElement | null)?.closest("input, textarea, select, [contenteditable]") != null;
      const isPalette = (event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === ":" && !isTyping);
      if (isPalette) {
        event.preventDefault();
        setFinding(true);
      } else if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
        const field = content.current?.querySelector<HTMLInputElement>("search input");
        if (field) {
          event.preventDefault();
          field.select();
        }
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);

  const isInMore = places.slice(mostNarrow).some(({ to }) => path.startsWith(to));
  // The build copies this file from web/public, where make notices writes it.
  const showLicences = () => void open("/ui/licenses.txt", "_blank", "noopener");
  const signOut = () => void hub.tokens.signOut().catch(() => {});
  return (
    <div className={styles.frame}>
      <button type="button" className={styles.skip} onClick={() => content.current?.focus()}>
        {text.skip}
      </button>
      <header className={styles.header}>
        <Link to="/" className={styles.brand}>
          <Mark />
          <span>{text.product}</span>
        </Link>
        <button type="button" className={styles.find} onClick={() => setFinding(true)}>
          <Icon name="search" />
          <span>{text.find}</span>
          <kbd>{/mac/i.test(navigator.userAgent) ? "⌘ K" : "Ctrl K"}</kbd>
        </button>
        <Connection />
        <Menu
          label={text.account(person)}
          button={
            <>
              <Icon name="person" />
              <span className={styles.person}>{person}</span>
            </>
          }
          groups={[
            {
              title: text.theme,
              chosen: theme,
              entries: themes.map((each) => ({
                id: each,
                label: text.themes[each],
                icon: each,
                onAction: () => setTheme(each),
              })),
            },
            {
              title: text.account(person),
              entries: [
                { id: "me", label: text.me, icon: "person", onAction: () => void navigate({ to: "/me" }) },
                { id: "licences", label: text.licences, icon: "external", onAction: showLicences },
                { id: "sign-out", label: text.signOut, icon: "close", onAction: signOut },
              ],
            },
          ]}
        />
      </header>
      <nav className={styles.nav} aria-label={text.navigation}>
        <ul>
          {places.map(({ to, label, icon }) => (
            <li key={to}>
              <Link to={to} activeOptions={{ exact: to === "/", includeSearch: false }}>
                <Icon name={icon} />
                <span>{label}</span>
              </Link>
            </li>
          ))}
          <li className={classes(styles.more, isInMore && styles.current)}>
            <Menu
              label={text.morePlaces}
              button={
                <>
                  <Icon name="more" />
                  <span>{text.more}</span>
                </>
              }
              groups={[
                {
                  entries: places.slice(mostNarrow).map(({ to, label, icon }) => ({
                    id: to,
                    label,
                    icon,
                    onAction: () => void navigate({ to }),
                  })),
                },
              ]}
            />
          </li>
        </ul>
      </nav>
      <div className={styles.middle}>
        <NewBuild />
        <main id="content" ref={content} className={styles.content} tabIndex={-1}>
          <Stale value={isLost}>{children}</Stale>
        </main>
        <StatusMessages />
      </div>
      {isFinding && (
        <Palette onClose={stopFinding}>{(asked) => <Finder asked={asked} onClose={stopFinding} />}</Palette>
      )}
    </div>
  );
}

const linkIcons: Record<LinkState, IconName> = {
  live: "check",
  loading: "half",
  paused: "pause",
  reconnecting: "offline",
  stopped: "cross",
};

/** Connection says whether the page is of now. Old is never painted as new, so it names the time of what is shown. */
function Connection() {
  const live = useConnection();
  if (!live) return null;
  const isOld = live.link !== "live" && live.asOf !== undefined;
  return (
    <div className={classes(styles.connection, styles[live.link])} role="status" title={text.linkTitle[live.link]}>
      <Icon name={linkIcons[live.link]} />
      <span className={styles.connectionWord}>{text.link[live.link]}</span>
      {isOld && <span className={styles.asOf}>{text.asOf(live.asOf as number)}</span>}
    </div>
  );
}

/** Mark is the sign of Leat: two lines of water. */
export function Mark({ size = 22 }: { size?: number }) {
  return (
    <svg className={styles.mark} viewBox="0 0 32 32" width={size} height={size} aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M7 12.5c4.5 0 4.5 4 9 4s4.5-4 9-4M7 19.5c4.5 0 4.5 4 9 4s4.5-4 9-4" transform="translate(0 -2)" />
    </svg>
  );
}

/** NoFinder says that the palette did not load. The page goes on without it. */
function NoFinder({ onClose }: { onClose: () => void }) {
  const { builds } = useHub();
  useEffect(() => {
    void builds.check();
    say(text.partGone, true);
    onClose();
  }, [builds, onClose]);
  return null;
}
