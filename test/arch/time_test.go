// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// leastBound is the shortest bound of real time that a test may have. A busy machine reaches
// shorter ones while the code is right.
const leastBound = time.Minute

// realTime lists the functions of tests that may measure or bound real time, each with its reason.
// The list only shrinks: a new test waits with internal/testkit/await, runs in a testing/synctest bubble,
// or counts events.
var realTime = map[string]string{
	"internal/runtime/h2/conformance_fuzz_test.go slowReader":                                  "a pause between two reads, which bounds nothing",
	"internal/runtime/h2/conformance_limits_test.go flood":                                     "only time shows that a side has stopped reading; a delay ends the flood early, and fails nothing",
	"internal/runtime/h2/conformance_memory_attacks_test.go cancels":                           "a request that is cancelled at some time; it bounds nothing",
	"internal/runtime/h2/conformance_memory_test.go awaitTaken":                                "only time shows that a side has stopped reading; a bubble hangs where x/net writes under a lock",
	"internal/runtime/h2/conformance_memory_test.go pace":                                      "as awaitTaken",
	"internal/runtime/h2/conformance_memory_test.go send":                                      "as awaitTaken",
	"internal/runtime/h2/conformance_peer_test.go hear":                                        "a bound of 30 s for a hang; to become await.Patience, which needs other timeouts of the peers",
	"internal/runtime/h2/conformance_shutdown_test.go TestConformanceClientShutdown":           "a bound of 30 s for a hang; to become await.Patience, which needs other timeouts of the peers",
	"internal/runtime/h2/conformance_shutdown_test.go TestConformanceServerShutdown":           "a bound of 30 s for a hang; to become await.Patience, which needs other timeouts of the peers",
	"internal/runtime/h2/conformance_shutdown_test.go TestConformanceShutdownHasItsLimit":      "a limit of 50 ms that has to pass: a slow machine only waits longer",
	"internal/runtime/h2/conformance_test.go newRequest":                                       "a bound of 30 s for a hang; to become await.Patience, which needs other timeouts of the peers",
	"internal/runtime/h2/conformance_test.go receive":                                          "a bound of 30 s for a hang; to become await.Patience, which needs other timeouts of the peers",
	"internal/runtime/h2/conformance_test.go watchGoroutines":                                  "a bound of 30 s for a hang; to become await.Patience, which needs other timeouts of the peers",
	"internal/runtime/h2/main_test.go await":                                                   "a bound of 30 s for a hang; to become await.Patience, which needs other timeouts of the peers",
	"internal/runtime/identity/jwks_test.go ServeHTTP":                                         "a double that the code under test calls in bubbles",
	"internal/kit/lease/keeper_test.go rest":                                                   "called in bubbles, from functions in tables",
	"internal/runtime/localkube/kubetest/kubetest.go setupContext":                             "the test program's own deadline, before which a test says what it waited for",
	"internal/testkit/chaos/link.go wait":                                                      "the delay is the fault that the proxy makes; it bounds nothing",
	"internal/testkit/chaos/link.go watchIdle":                                                 "the end of idle links is the fault that the proxy makes; it bounds nothing",
	"internal/testkit/redistest/redistest_test.go TestServerLifecycle":                         "a frozen process gives no event; a slow machine only waits longer",
	"render/liquid/security_test.go TestSecLiquidEndsWithTheContext":                           "a loop that is cancelled at some time; it bounds nothing",
	"render/renderworker/renderworker_test.go TestCanceledBuildIsNoFailure":                    "a build that is cancelled at some time; it bounds nothing",
	"render/wasm/security_test.go TestSecModulesEndWithTheContext":                             "a module that is cancelled at some time; it bounds nothing",
	"services/agent/internal/control/report_test.go pass":                                      "called in bubbles",
	"services/agent/internal/kube/discovery_test.go TestDiscoveryIsShared":                     "more time allows more requests: a slow machine raises the bound",
	"services/agent/internal/kube/watch/proxy_test.go pass":                                    "the delay is the fault that the proxy makes; it bounds nothing",
	"services/agent/internal/reconcile/engine_test.go takes":                                   "called in bubbles, also by doubles",
	"services/distributor/internal/fleet/catchup_test.go Changes":                              "a double that the code under test calls in bubbles",
	"services/distributor/internal/delivery/intake/intake_test.go SaveReports":                 "a double that the code under test calls in bubbles",
	"services/distributor/internal/spine/journal/journal_test.go Prune":                        "a double that the code under test calls in bubbles",
	"services/distributor/internal/delivery/resolve/resolve_test.go Resolve":                   "a double that the code under test calls in bubbles",
	"services/distributor/internal/sqlstore/audit_hang_test.go TestSecAuditLogThatHangs":       "100 edits that wait for each other take 200 s, and those that do not take 4 s; the bound is 100 s",
	"services/distributor/internal/sqlstore/configsets_slow_test.go TestSlowSetOfManyServices": "logs figures, and asserts none",
	"services/distributor/security_test.go TestSecOneAgentTakesNoOthersOpenings":               "more time allows more streams: a slow machine raises the bound",
	"services/tunnel/leak_test.go TestF09CanceledRequestsLeaveNothingBehind":                   "requests that are cancelled at some time; it bounds nothing",
	"services/tunnel/rolling_test.go roam":                                                     "an agent that leaves when its replica asked it to; it bounds nothing",
	"test/attack/probe_test.go begin":                                                          "the table of make attack shows how long normal requests take; no test asserts it",
	"test/attack/run_test.go strike":                                                           "an attack on another process lasts that long",
	"test/attack/secrets_test.go opensStream":                                                  "a stream that waits for an event sends nothing, which only time shows; a refusal is in the first bytes",
	"test/attack/wire_test.go wait":                                                            "attackers pause, as slow readers and writers do",
	"test/fault/gameday_test.go strikes":                                                       "writes figures of a game day, and asserts none",
	"test/fault/mix_test.go rest":                                                              "a fault of other processes, such as a freeze, lasts as long as their leases",
	"test/fault/wanderer_test.go wander":                                                       "an agent leaves a frozen replica for another one; a refusal fails no test",
	"test/tunnel/failures_test.go cancelSome":                                                  "requests that are cancelled at some time; it bounds nothing",
}

// TestNoRealTimeInTests refuses tests that bound or measure real time: such tests fail on a busy
// machine, and reveal nothing about the code. Time is virtual in a testing/synctest bubble, and
// benchmarks measure.
func TestNoRealTimeInTests(t *testing.T) {
	t.Parallel()
	top := root(t)
	packages := map[string][]string{}
	for _, file := range filter(trackedFiles(t), ".go") {
		folder := filepath.Dir(file)
		isTest := strings.HasSuffix(file, "_test.go") || isTestEquipment(folder+"/")
		if isTest && !strings.HasPrefix(file, "bench/") && folder != "internal/testkit/await" {
			packages[folder] = append(packages[folder], file)
		}
	}
	unused := maps.Clone(realTime)
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		tests := readTests(t, top, packages[folder])
		for _, s := range tests.sites() {
			place := s.file + " " + s.function
			if _, excepted := realTime[place]; excepted {
				delete(unused, place)
				continue
			}
			t.Errorf("%s:%d: %s %s; wait with internal/testkit/await, use testing/synctest, or count events", s.file, s.line, s.function, s.what)
		}
	}
	for place := range unused {
		t.Errorf("realTime lists %s, which uses no real time", place)
	}
}

// site is a place that bounds or measures real time.
type site struct {
	file, function, what string
	line                 int
}

// tests are the test files of one folder.
type tests struct {
	set       *token.FileSet
	files     map[string]*ast.File
	durations map[string]ast.Expr // constants and variables of the package, by name
	// bubbles are the functions that call synctest.Test: what they are given runs in a bubble.
	bubbles map[string]bool
	// virtual are the functions, and the methods as ".name", that are used in bubbles and benchmarks
	// alone. A method that no test names is called through an interface: it is used where a value of its
	// type is made.
	virtual map[string]bool
	methods map[string][]string // by type
}

func readTests(t *testing.T, top string, files []string) *tests {
	t.Helper()
	p := &tests{
		set: token.NewFileSet(), files: map[string]*ast.File{}, durations: map[string]ast.Expr{},
		bubbles: map[string]bool{}, virtual: map[string]bool{}, methods: map[string][]string{},
	}
	for _, name := range files {
		file, err := parser.ParseFile(p.set, filepath.Join(top, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.files[name] = file
		for _, decl := range file.Decls {
			p.declare(decl)
		}
	}
	p.spread()
	return p
}

func (p *tests) declare(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		name := nameOf(decl)
		// Until a use elsewhere shows otherwise.
		p.virtual[name] = !isEntry(name)
		if decl.Recv != nil {
			of := receiver(decl.Recv.List[0].Type)
			p.methods[of] = append(p.methods[of], name)
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isCall(call, "synctest", "Test") {
				p.bubbles[decl.Name.Name] = true
			}
			return true
		})
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if spec, ok := spec.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					p.durations[name.Name] = spec.Values[i]
				}
			}
		}
	}
}

// nameOf returns the key of a function in tests.virtual.
func nameOf(decl *ast.FuncDecl) string {
	if decl.Recv != nil {
		return "." + decl.Name.Name
	}
	return decl.Name.Name
}

// isEntry reports whether the testing package calls the function.
func isEntry(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example") || name == "init"
}

// spread takes out of virtual functions that are used in real time, until nothing changes, and
// unused ones.
func (p *tests) spread() {
	named := p.selected()
	for changed := true; changed; {
		changed = false
		used := map[string]bool{}
		selected := map[*ast.Ident]bool{} // the second parts of selectors, which are visited again
		use := func(name string, isVirtual bool) {
			used[name] = true
			if p.virtual[name] && !isVirtual {
				p.virtual[name], changed = false, true
			}
		}
		p.walk(func(_ string, function string, isVirtual bool, n ast.Node) {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				selected[n.Sel] = true
				if name := "." + n.Sel.Name; name != "."+function {
					use(name, isVirtual)
				}
			case *ast.Ident:
				if n.Name != function && !selected[n] {
					use(n.Name, isVirtual)
				}
			case *ast.CompositeLit:
				if of, ok := n.Type.(*ast.Ident); ok {
					for _, method := range p.methods[of.Name] {
						if !named[method] {
							use(method, isVirtual)
						}
					}
				}
			}
		})
		for name, isVirtual := range p.virtual {
			if isVirtual && !used[name] && !strings.HasPrefix(name, "Benchmark") {
				p.virtual[name], changed = false, true
			}
		}
	}
}

// selected returns the fields and methods that tests name, as ".name".
func (p *tests) selected() map[string]bool {
	all := map[string]bool{}
	p.walk(func(_, _ string, _ bool, n ast.Node) {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			all["."+selector.Sel.Name] = true
		}
	})
	return all
}

// walk visits the nodes of all functions, with the name of the function and whether the node runs in a
// bubble or a benchmark alone.
func (p *tests) walk(visit func(file, function string, isVirtual bool, n ast.Node)) {
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		for _, decl := range p.files[name].Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			p.walkBelow(function.Body, p.virtual[nameOf(function)], p.runsBubble(function), func(isVirtual bool, n ast.Node) {
				visit(name, function.Name.Name, isVirtual, n)
			})
		}
	}
}

// runsBubble reports whether a function runs a bubble. The functions in its tables then run there.
func (p *tests) runsBubble(function *ast.FuncDecl) (runs bool) {
	ast.Inspect(function.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && p.isBubble(call) {
			runs = true
		}
		return !runs
	})
	return runs
}

func (p *tests) walkBelow(below ast.Node, isVirtual, tables bool, visit func(isVirtual bool, n ast.Node)) {
	ast.Inspect(below, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		if table, ok := n.(*ast.CompositeLit); ok && tables && !isVirtual {
			visit(isVirtual, n)
			for _, element := range table.Elts {
				p.walkBelow(element, true, tables, visit)
			}
			return false
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || isVirtual || !p.isBubble(call) {
			visit(isVirtual, n)
			return true
		}
		p.walkBelow(call.Fun, false, tables, visit)
		for _, argument := range call.Args {
			p.walkBelow(argument, true, tables, visit)
		}
		return false
	})
}

func (p *tests) isBubble(call *ast.CallExpr) bool {
	switch function := call.Fun.(type) {
	case *ast.SelectorExpr:
		return isCall(call, "synctest", "Test") || p.bubbles[function.Sel.Name]
	case *ast.Ident:
		return p.bubbles[function.Name]
	}
	return false
}

// sites returns the places that bound or measure real time.
func (p *tests) sites() []site {
	var found []site
	p.walk(func(file, function string, isVirtual bool, n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || isVirtual {
			return
		}
		if what := p.judge(call); what != "" {
			found = append(found, site{file: file, function: function, what: what, line: p.set.Position(n.Pos()).Line})
		}
	})
	return found
}

// judge returns the defect of a call that is made in real time. A ticker is allowed: it paces a
// loop, and the loop's end is judged where it is written.
func (p *tests) judge(call *ast.CallExpr) string {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	switch name := selector.Sel.Name; {
	case isCall(call, "time", name) && slices.Contains([]string{"After", "AfterFunc", "NewTimer", "Sleep"}, name):
		return "waits for time to pass"
	case isCall(call, "time", "Since"):
		return "measures time"
	case isCall(call, "context", name) && (name == "WithTimeout" || name == "WithTimeoutCause"):
		if bound, known := p.duration(call.Args[1]); !known || bound < leastBound {
			return tooShort
		}
	case isCall(call, "context", name) && (name == "WithDeadline" || name == "WithDeadlineCause"):
		return p.judgeMoment(call.Args[1])
	case len(call.Args) == 1 && (name == "SetDeadline" || name == "SetReadDeadline" || name == "SetWriteDeadline"):
		return p.judgeMoment(call.Args[0])
	}
	return ""
}

const tooShort = "bounds time by less than a minute, or by an unknown time"

// judgeMoment returns the defect of a deadline such as time.Now().Add(d).
func (p *tests) judgeMoment(moment ast.Expr) string {
	add, ok := moment.(*ast.CallExpr)
	if !ok || len(add.Args) != 1 {
		return ""
	}
	if bound, known := p.duration(add.Args[0]); !known || bound < leastBound {
		return tooShort
	}
	return ""
}

// duration evaluates products of numbers, units and names of the package.
func (p *tests) duration(expr ast.Expr) (time.Duration, bool) {
	switch expr := expr.(type) {
	case *ast.ParenExpr:
		return p.duration(expr.X)
	case *ast.BasicLit:
		n, err := strconv.ParseInt(expr.Value, 10, 64)
		return time.Duration(n), err == nil
	case *ast.BinaryExpr:
		x, knowX := p.duration(expr.X)
		y, knowY := p.duration(expr.Y)
		return time.Duration(int64(x) * int64(y)), knowX && knowY && expr.Op == token.MUL
	case *ast.Ident:
		value, known := p.durations[expr.Name]
		if !known {
			return 0, false
		}
		return p.duration(value)
	case *ast.SelectorExpr:
		if from, ok := expr.X.(*ast.Ident); ok && from.Name == "await" && expr.Sel.Name == "Patience" {
			return leastBound, true
		}
		unit, known := map[string]time.Duration{
			"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
			"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
		}[expr.Sel.Name]
		return unit, known
	}
	return 0, false
}

func isCall(call *ast.CallExpr, pkg, function string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != function {
		return false
	}
	from, ok := selector.X.(*ast.Ident)
	return ok && from.Name == pkg
}
