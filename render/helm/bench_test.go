// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm_test

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/localkube"
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

// BenchmarkHelm renders a chart of 200 objects in this process.
func BenchmarkHelm(b *testing.B) {
	tree := large()
	b.ReportAllocs()
	for b.Loop() {
		if out, err := renderChart(b, tree, render.Input{}); err != nil || len(out.Objects) != 200 {
			b.Fatal(len(out.Objects), err)
		}
	}
}

// BenchmarkHelmProgram renders the same chart with helm template, and reports its CPU time and its
// memory.
func BenchmarkHelmProgram(b *testing.B) {
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
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(memory>>10), "MiB")
}
