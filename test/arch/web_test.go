// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A webRule refuses something in the sources of the web UI, which are not Go. It reads them by patterns, so it finds
// what people write by habit or by mistake. What is hidden from it on purpose is left to review, and to the policy that
// the hub sends with the page.
type webRule struct {
	name string
	// in are the folders or files of web/src that the rule covers; empty: all of them.
	in []string
	// except are files that need what the rule refuses, each with the reason.
	except map[string]string
	// imports are folders of web/src from which nothing may be imported; types may, if allowsTypes is set.
	imports     []string
	allowsTypes bool
	// text is what must not be written.
	text *regexp.Regexp
	// spares allows a match of text.
	spares *regexp.Regexp
	why    string
	// bad are files by their path, each with a line that breaks the rule.
	bad map[string]string
}

var webRules = []webRule{
	{
		name: "pages import no other page", in: []string{"pages/"}, imports: []string{"pages/"},
		why: "a page is loaded alone, and what two pages share belongs into fleet or parts",
		bad: map[string]string{
			"pages/service/page.tsx":    `import { reason } from "../problems/page.tsx";`,
			"pages/service/actions.tsx": `const Other = lazy(() => import("../cluster/page.tsx"));`,
			"pages/cluster/page.tsx":    `export * from "../clusters/page.tsx";`,
			"pages/clusters/page.tsx":   `import "../cluster/page.module.css";`,
		},
	},
	{
		name: "parts know no hub", in: []string{"parts/"}, imports: []string{"hub/", "fleet/", "pages/", "shell/", "gen/", "app.tsx", "main.tsx"}, allowsTypes: true,
		why: "a part shows what it is given, so that the page of parts and every other page can use it; it may name a type",
		bad: map[string]string{
			"parts/age.tsx":    `import { useHub } from "../hub/hub.ts";`,
			"parts/link.tsx":   `import { useTitle } from "../shell/shell.tsx";`,
			"parts/grid.tsx":   `import { listPage } from "../fleet/refs.ts";`,
			"parts/phase.tsx":  `import { PartsPage } from "../pages/parts/page.tsx";`,
			"parts/states.tsx": `import { type Failure, failureOf } from "../hub/failure.ts";`,
		},
	},
	{
		name: "the hub's calls know no page", in: []string{"hub/"}, imports: []string{"parts/", "fleet/", "pages/", "shell/", "app.tsx", "main.tsx"}, allowsTypes: true,
		why: "calls and live data are tried without a page",
		bad: map[string]string{"hub/live.ts": `import { say } from "../parts/status.tsx";`},
	},
	{
		name: "what pages share knows no page", in: []string{"fleet/", "text/"}, imports: []string{"pages/", "app.tsx", "main.tsx"},
		why: "pages import it",
		bad: map[string]string{"fleet/list.tsx": `import { ServicesPage } from "../pages/services/page.tsx";`},
	},
	{
		name: "no test is a part of the UI", imports: []string{"../test/"},
		why: "people would load it",
		bad: map[string]string{"hub/hub.ts": `import { makeHub } from "../../test/hub.ts";`},
	},
	{
		name: "one part links to other hosts",
		except: map[string]string{
			"parts/link.tsx":         "it is that part, and checks what it links to",
			"pages/sign-in/page.tsx": "it leads to the hub's own /login, and builds that address from a path alone",
			"pages/parts/page.tsx":   "it shows how counters and links look, with examples",
		},
		// Links within the UI are the router's.
		text: regexp.MustCompile(`<a[\s>]|createElement\("a"|\btarget=|\bwindow\.open\b|\blocation\.(?:assign|replace)\b|\blocation(?:\.href)?\s*=[^=]|\bhref=\{?["` + "`" + `]https?:|\bformAction=|\bhttpEquiv=`),
		why:  "clusters and repositories write addresses; parts/link.tsx alone checks them",
		bad: map[string]string{
			"fleet/head.tsx":          `<a href={row.url}>{row.url}</a>`,
			"fleet/columns.tsx":       `window.open(row.url);`,
			"pages/service/page.tsx":  `location.href = url;`,
			"pages/cluster/page.tsx":  `location.assign(url);`,
			"pages/clusters/page.tsx": `<Link to="/" target="_blank">`,
		},
	},
	{
		name: "one module sees tokens",
		except: map[string]string{
			"hub/token.ts": "it is that module",
			"hub/hub.ts":   "it puts the token of a call into the call's header",
		},
		text: regexp.MustCompile(`\baccessToken\b|\b[cC]reateAccessToken\b|\bBearer\b|["']Authorization["']|\.token\(\)|\bbearer\.authorization\b`),
		why:  "a token that other modules hold ends in a message, a storage or an address",
		bad: map[string]string{
			"hub/live.ts":            `const bearer = await hub.tokens.token();`,
			"pages/service/page.tsx": `const { accessToken } = await hub.sessions.createAccessToken({});`,
			"fleet/list.tsx":         "request.header.set(\"Authorization\", `Bearer ${secret}`);",
		},
	},
	{
		name: "React writes all text",
		text: regexp.MustCompile(`\b(?:inner|outer)HTML\b|\bdangerouslySetInnerHTML\b|\binsertAdjacentHTML\b|\beval\s*\(|\bnew Function\b|\bdocument\.write(?:ln)?\b|\bcreateContextualFragment\b|\bsetHTML(?:Unsafe)?\b|\bparseHTMLUnsafe\b|\bDOMParser\b|\bsrc[dD]oc\b|\bset(?:Timeout|Interval)\(\s*["'` + "`" + `]|\bcreatePolicy\b`),
		why:  "text of clusters and repositories is hostile",
		bad: map[string]string{
			"parts/age.tsx":      `node.innerHTML = message;`,
			"parts/badge.tsx":    `<p dangerouslySetInnerHTML={{ __html: message }} />`,
			"parts/button.tsx":   `node.insertAdjacentHTML("beforeend", message);`,
			"parts/command.tsx":  `eval(message);`,
			"parts/counters.tsx": `new Function(message)();`,
			"parts/field.tsx":    `document.write(message);`,
			"parts/filter.tsx":   `setTimeout("go()", 10);`,
			"parts/grid.tsx":     `<iframe srcDoc={message} />`,
		},
	},
	{
		name: "the browser stores the theme alone",
		except: map[string]string{
			"shell/theme.ts": "it is a choice of the person, and no secret",
			"shell/back.ts":  "a sign-in with a provider leaves the page, so the address to return to outlives it, in the tab alone",
		},
		text: regexp.MustCompile(`\b(?:local|session)Storage\b|\bindexedDB\b|\bdocument\.cookie\b|\bcookieStore\b|\bcaches\.|\bserviceWorker\b|\bstorage\.getDirectory\b|\bwindow\.name\b`),
		why:  "what is stored outlives the session, and the next person at the machine can read it",
		bad: map[string]string{
			"hub/token.ts":            `sessionStorage.setItem("token", token);`,
			"fleet/list.tsx":          `localStorage.filter = filter;`,
			"pages/problems/page.tsx": `document.cookie = "seen=1";`,
			"hub/list.ts":             `const request = indexedDB.open("rows");`,
		},
	},
	{
		name: "words are in text/",
		except: map[string]string{
			"pages/parts/page.tsx": "its words are for those who work on the UI",
		},
		// Text between tags, and attributes that people read. Commands are the same in every language.
		text:   regexp.MustCompile(`(?:[^=]|")>\s*[A-Za-z][^<>{}=;()` + "`" + `]*[a-z][^<>{}=;()` + "`" + `]*</\w+|\b(?:title|label|placeholder|alt|description|aria-(?:label|description|roledescription|valuetext))="[^"]*[A-Za-z]`),
		spares: regexp.MustCompile(`</(?:Command|code|kbd)$`),
		why:    "another language is another file",
		bad: map[string]string{
			"pages/service/page.tsx":  "<p>Nothing to see</p>",
			"pages/cluster/page.tsx":  "<Button onClick={go}>\n  Roll back\n</Button>",
			"pages/clusters/page.tsx": `<Card title="Objects">`,
			"parts/grid.tsx":          `<div aria-label="Rows">`,
		},
	},
}

// TestWebUIKeepsItsRules reads the hand-written sources of the web UI.
func TestWebUIKeepsItsRules(t *testing.T) {
	t.Parallel()
	sources := map[string]string{}
	for _, file := range trackedFiles(t) {
		rest, isWeb := strings.CutPrefix(file, "web/src/")
		if !isWeb || strings.HasPrefix(rest, "gen/") || !isScript(rest) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		sources[rest] = string(content)
	}
	if len(sources) == 0 {
		t.Fatal("web/src has no sources")
	}
	for _, rule := range webRules {
		for file, content := range sources {
			for _, found := range rule.broken(file, content) {
				t.Errorf("web/src/%s: %s; %s: %s", file, found, rule.name, rule.why)
			}
		}
		for file := range rule.except {
			if rule.text.FindString(code(sources[file])) == "" {
				t.Errorf("%s: web/src/%s needs no exception", rule.name, file)
			}
		}
	}
}

// TestWebRulesFindWhatTheyRefuse gives each rule sources that break it.
func TestWebRulesFindWhatTheyRefuse(t *testing.T) {
	t.Parallel()
	for _, rule := range webRules {
		if len(rule.bad) == 0 {
			t.Errorf("%s: has no bad example", rule.name)
		}
		for file, line := range rule.bad {
			if len(rule.broken(file, "import type { A } from \"react\";\n\n"+line+"\n")) == 0 {
				t.Errorf("%s: does not find %q in %s", rule.name, line, file)
			}
		}
	}
	for file, line := range map[string]string{
		"parts/states.tsx":        `import type { Failure } from "../hub/failure.ts";`,
		"parts/status.tsx":        `import { text } from "../text/en.ts";`,
		"pages/service/page.tsx":  `import styles from "./page.module.css";`,
		"pages/problems/page.tsx": `// insertAdjacentHTML and localStorage are refused`,
		"pages/cluster/page.tsx":  `<Command>leat cluster create NAME -o kubernetes</Command>`,
		"pages/services/page.tsx": `const open = (row) => row.name < last ? <b>{row.name}</b> : null;`,
		"fleet/page.tsx":          `<Card title={text.objects}>{rows}</Card>`,
		"fleet/head.tsx":          `<Link to="/services/$" params={{ _splat: name }}>{name}</Link>`,
	} {
		for _, rule := range webRules {
			if found := rule.broken(file, line); len(found) > 0 {
				t.Errorf("%s: refuses %q: %v", rule.name, line, found)
			}
		}
	}
}

// isScript reports whether a file is a part of the UI, and not a test of one.
func isScript(file string) bool {
	isTest := strings.HasSuffix(file, ".test.ts") || strings.HasSuffix(file, ".test.tsx")
	return !isTest && (strings.HasSuffix(file, ".ts") || strings.HasSuffix(file, ".tsx"))
}

// imported finds the imports and exports of a module by its path, also those of types and those at run time.
var imported = regexp.MustCompile(`(?:\b(import|export)\b(\s+type\b)?[^;"'()]*?\bfrom\s*|\bimport\s*\(?\s*)["']([^"']+)["']`)

// broken returns how a file breaks the rule.
func (r webRule) broken(file, content string) []string {
	isCovered := len(r.in) == 0 || slices.ContainsFunc(r.in, func(in string) bool { return strings.HasPrefix(file, in) })
	if _, isExcepted := r.except[file]; isExcepted || !isCovered {
		return nil
	}
	content = code(content)
	var found []string
	for _, match := range imported.FindAllStringSubmatch(content, -1) {
		isType, target := match[2] != "", match[3]
		if !strings.HasPrefix(target, ".") || isType && r.allowsTypes {
			continue
		}
		target = path.Join(path.Dir(file), target)
		isOwn := path.Dir(target) == path.Dir(file) || strings.HasPrefix(target, path.Dir(file)+"/")
		if !isOwn && slices.ContainsFunc(r.imports, func(refused string) bool { return strings.HasPrefix(target, refused) }) {
			found = append(found, fmt.Sprintf("imports %s", target))
		}
	}
	if r.text != nil {
		for _, match := range r.text.FindAllString(content, -1) {
			if r.spares == nil || !r.spares.MatchString(match) {
				found = append(found, fmt.Sprintf("has %q", match))
			}
		}
	}
	return found
}

// code returns a source without the lines that are comments.
func code(content string) string {
	var lines []string
	for line := range strings.Lines(content) {
		text := strings.TrimSpace(line)
		isComment := strings.HasPrefix(text, "//") || strings.HasPrefix(text, "* ") || text == "*" || strings.HasPrefix(text, "/*") || strings.HasPrefix(text, "{/*")
		if !isComment {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
