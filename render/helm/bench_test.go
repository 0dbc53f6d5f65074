// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/render"
)

// large returns a chart of 200 objects with helpers, values and labels.
func large() map[string][]byte {
	return chartOf(map[string]string{
		"values.yaml":           "replicas: 2\nimage: {repository: registry.example/app, tag: '1.0'}\nenv: {LEVEL: info}\n",
		"templates/_h.tpl":      "{{ define \"labels\" }}app.kubernetes.io/name: {{ .Chart.Name }}\napp.kubernetes.io/instance: {{ .Release.Name }}\n{{ end }}",
		"templates/config.yaml": "{{ range $i := until 100 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: conf-{{ $i }}\n  labels:\n    {{- include \"labels\" $ | nindent 4 }}\ndata:\n  sum: {{ toJson $.Values | sha256sum }}\n{{ end }}",
		"templates/web.yaml": "{{ range $i := until 100 }}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ printf \"%s-%d\" $.Release.Name $i | trunc 63 }}\n  labels:\n    {{- include \"labels\" $ | nindent 4 }}\n" +
			"spec:\n  replicas: {{ $.Values.replicas }}\n  selector: {matchLabels: {app: web-{{ $i }}}}\n  template:\n    metadata: {labels: {app: web-{{ $i }}}}\n    spec:\n      containers:\n      - name: app\n" +
			"        image: {{ $.Values.image.repository }}:{{ $.Values.image.tag }}\n        env:\n        {{- range $k, $v := $.Values.env }}\n        - {name: {{ $k }}, value: {{ tpl $v $ | quote }}}\n        {{- end }}\n{{ end }}",
	})
}

// BenchmarkChart renders a chart of 200 objects in this process; with helm template; and with
// Helm's SDK as Flux uses it, in a process that keeps running. It reports the CPU time of each,
// garbage collection and, for the program, its start included.
func BenchmarkChart(b *testing.B) {
	b.Run("leat", func(b *testing.B) {
		tree := large()
		b.ReportAllocs()
		before := ownCPU(b)
		for b.Loop() {
			if out, err := renderChart(b, tree, render.Input{}); err != nil || len(out.Objects) != 200 {
				b.Fatal(len(out.Objects), err)
			}
		}
		reportCPU(b, ownCPU(b)-before)
	})
	b.Run("peer=program", benchmarkProgram)
	b.Run("peer=sdk", benchmarkSDK)
}

func benchmarkProgram(b *testing.B) {
	binaries, err := localkube.Build(b.Context(), localkube.BuildParams{Helm: true})
	if err != nil {
		b.Fatal(err)
	}
	dir := write(b, large()).dir
	var cpu time.Duration
	var memory int64
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), binaries.Helm, "template", "demo", "chart")
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir}
		if output, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, output)
		}
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			memory = max(memory, usage.Maxrss)
		}
	}
	reportCPU(b, cpu)
	b.ReportMetric(float64(memory>>10), "MiB")
}

// benchmarkSDK runs tools/peers/helm.
func benchmarkSDK(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "helm")
	compile := exec.CommandContext(b.Context(), "go", "build", "-o", binary, ".")
	compile.Dir, compile.Env = filepath.Join("..", "..", "tools", "peers", "helm"), append(os.Environ(), "GOWORK=off")
	if output, err := compile.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, output)
	}
	peer := exec.CommandContext(b.Context(), binary, filepath.Join(write(b, large()).dir, "chart"), kubernetesVersion)
	peer.Stderr = os.Stderr
	in, err := peer.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := peer.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := peer.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = peer.Wait()
	}()
	answers := bufio.NewScanner(out)
	answers.Scan() // it is ready
	var cpu time.Duration
	for b.Loop() {
		if _, err := fmt.Fprintln(in); err != nil {
			b.Fatal(err)
		}
		var answer struct {
			CPU     time.Duration
			Objects int
		}
		if !answers.Scan() {
			b.Fatalf("the peer ended: %v", answers.Err())
		}
		if err := json.Unmarshal(answers.Bytes(), &answer); err != nil || answer.Objects != 200 {
			b.Fatalf("got %s, %v", answers.Bytes(), err)
		}
		cpu += answer.CPU
	}
	reportCPU(b, cpu)
}

func reportCPU(b *testing.B, cpu time.Duration) {
	b.Helper()
	b.ReportMetric(cpu.Seconds()*1e3/float64(b.N), "cpu-ms/op")
}

// ownCPU returns the CPU time of this process.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
