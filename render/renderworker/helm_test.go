// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderworker_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderworker"
)

// chart returns a chart with a template.
func chart(template string) *render.Files {
	return files(map[string]string{"Chart.yaml": "{apiVersion: v2, name: a, version: 1.0.0}", "templates/a.yaml": template})
}

func renderChart(ctx context.Context, renderer render.Renderer, files *render.Files) (render.Output, error) {
	return renderer.Render(ctx, render.Input{Files: files, Steps: []renderstep.Step{{Renderer: renderstep.Helm}}})
}

// TestSecHostileCharts renders charts that never end or take all memory, while another service's
// chart is rendered again and again. Each hostile one ends at a limit, the other succeeds every time,
// and this process, which stands for the agent, does not grow.
func TestSecHostileCharts(t *testing.T) {
	t.Parallel()
	const memory = 256 * config.MiB
	brief := newPool(t, renderworker.Config{Memory: memory, Timeout: 2 * time.Second})
	patient := newPool(t, renderworker.Config{Memory: memory}) // for what ends by its memory
	needsLimits(t, brief)
	needsLimits(t, patient)
	before := resident(t)
	for name, test := range map[string]struct {
		template string
		want     render.Limit
	}{
		"a list of a thousand million":            {`{{ range until 1000000000 }}x{{ end }}`, render.LimitMemory},
		"an output of 1 GB":                       {`{{ range until 1000 }}{{ repeat 1000000 "x" }}{{ end }}`, render.LimitMemory},
		"a text of 2 GB":                          {`{{ repeat 2000000000 "x" }}`, render.LimitMemory},
		"random bytes":                            {`{{ randBytes 2000000000 }}`, render.LimitMemory},
		"a value that doubles":                    {`{{ $x := "xxxxxxxx" }}{{ range until 40 }}{{ $x = print $x $x }}{{ end }}`, render.LimitMemory},
		"loops in loops":                          {endless, render.LimitTime},
		"a recursion with many branches":          {`{{ define "x" }}{{ if . }}{{ include "x" (sub . 1 | int) }}{{ include "x" (sub . 1 | int) }}{{ end }}{{ end }}{{ include "x" 60 }}`, render.LimitTime},
		"a template that defines and runs itself": {`{{ $x := "{{ tpl .x . }}" }}{{ tpl $x (dict "x" $x "Template" .Template) }}`, ""},
	} {
		pool := patient
		if test.want == render.LimitTime {
			pool = brief
		}
		_, err := renderChart(t.Context(), pool, chart(test.template))
		limit := new(render.LimitError)
		if !errors.As(err, &limit) || test.want != "" && limit.Limit != test.want {
			t.Errorf("%s: got %v, want limit %s", name, err, test.want)
		}
		if _, err := renderChart(t.Context(), patient, chart(configMap("good"))); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	debug.FreeOSMemory()
	if grown := resident(t) - before; !renderworker.RaceDetector && grown > 20<<20 {
		t.Errorf("the process grew by %d MiB", grown>>20)
	}
}

// TestSecHostileChartsHoldUpNoOthers renders an endless chart beside good ones, in a pool of two. No
// timeout ends the endless one, so that a render that waits for it hangs.
func TestSecHostileChartsHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	pool := newPool(t, renderworker.Config{Workers: 2, Timeout: time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := renderChart(ctx, pool, chart(endless)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of the test", err)
		}
	})
	for range 20 {
		if _, err := renderChart(t.Context(), pool, chart(configMap("good"))); err != nil {
			t.Error(err)
		}
	}
	stop()
	group.Wait()
}

// endless is a template that ends with its worker alone.
const endless = `{{ range until 100000 }}{{ range until 100000 }}{{ $_ := sha256sum "x" }}{{ end }}{{ end }}`

// TestSecHostileServicesHoldUpNoOthers renders two services without an end beside 20 others, in a pool
// of two. No timeout ends the hostile ones, so that a render that waits for them hangs.
func TestSecHostileServicesHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	const others, rounds = 20, 3
	pool := newPool(t, renderworker.Config{Workers: 2, Timeout: time.Hour, Memory: 256 * config.MiB})
	needsLimits(t, pool)
	ctx, stop := context.WithCancel(t.Context())
	var hostile, group sync.WaitGroup
	for i := range 2 {
		in := render.Input{Service: "hostile-" + strconv.Itoa(i), Files: chart(endless), Steps: []renderstep.Step{{Renderer: renderstep.Helm}}}
		hostile.Go(func() {
			if _, err := pool.Render(ctx, in); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v, want the end of the test", in.Service, err)
			}
		})
	}
	for i := range others {
		in := render.Input{
			Service: "good-" + strconv.Itoa(i), Files: chart(configMap("good")), Steps: []renderstep.Step{{Renderer: renderstep.Helm}},
		}
		group.Go(func() {
			for range rounds {
				if _, err := pool.Render(t.Context(), in); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	stop()
	hostile.Wait()
}

// TestSecMemoryComesBack attacks a process, which stands for the agent, with every renderer's worst
// content. Each attack ends as content that is refused, others are rendered after each, and at the
// end the process has at most 20 MiB more than before. No worker had more memory than it may use, not
// even by one allocation.
func TestSecMemoryComesBack(t *testing.T) {
	t.Parallel()
	needsLimits(t, newPool(t, renderworker.Config{}))
	program, err := buildPlainWorker()
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Before, After   int
		Untyped         map[string]string
		Attacks, Failed int
		Worker          int64
	}
	if err := json.Unmarshal(output, &report); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if report.Attacks < 30 || report.Failed > 0 || report.Before == 0 {
		t.Errorf("got %+v, want 30 attacks at least, and no failure of others", report)
	}
	for name, problem := range report.Untyped {
		t.Errorf("%s: got %s, want a limit or an error about the content", name, problem)
	}
	if grown := report.After - report.Before; grown > 20<<20 {
		t.Errorf("the process grew by %d MiB, from %d MiB", grown>>20, report.Before>>20)
	}
	// 256 MiB, one unit of Go's heap, and the program's own pages.
	if most := int64(256+64+80) << 20; report.Worker > most || report.Worker == 0 {
		t.Errorf("a worker had %d MiB, want at most %d", report.Worker>>20, most>>20)
	}
	t.Logf("a worker had %d MiB at most", report.Worker>>20)
	t.Logf("%d attacks; %d KiB before, %d KiB after", report.Attacks, report.Before>>10, report.After>>10)
}

// TestSecManyFiles renders a chart of 20,000 files.
func TestSecManyFiles(t *testing.T) {
	t.Parallel()
	content := map[string]string{"Chart.yaml": "{apiVersion: v2, name: a, version: 1.0.0}", "templates/a.yaml": configMap("a"), ".helmignore": "*.bak\nsecret/\n"}
	for i := range 20_000 {
		content["files/"+strconv.Itoa(i%100)+"/"+strconv.Itoa(i)] = "x"
	}
	out, err := renderChart(t.Context(), newPool(t, renderworker.Config{}), files(content))
	if err != nil || len(out.Objects) != 1 {
		t.Errorf("got %d objects, %v", len(out.Objects), err)
	}
}

// resident returns the bytes of memory of this process that are not code, or 0 if they are unknown.
func resident(t *testing.T) int {
	t.Helper()
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			pages, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return pages << 10
		}
	}
	return 0
}
