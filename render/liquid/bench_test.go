// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package liquid_test

import (
	"testing"

	"github.com/leatdev/leat/render/liquid"
)

// BenchmarkDeployments writes 200 Deployments.
func BenchmarkDeployments(b *testing.B) {
	in := input(map[string]string{"web.yaml.liquid": `{% for i in (1..200) %}---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-{{ i }}, namespace: {{ service.namespace }}, labels: {app: web-{{ i }}}}
spec:
  replicas: {{ configuration.REPLICAS }}
  selector: {matchLabels: {app: web-{{ i }}}}
  template:
    metadata: {labels: {app: web-{{ i }}, region: {{ cluster.tags.region | quote }}}}
    spec:
      containers:
      - name: app
        image: registry.example/app:{{ configuration.TAG }}
        args: [serve, --port=8080]
        env: [{name: LEVEL, value: {{ configuration.LEVEL | default: "info" | quote }}}]
{% endfor %}`}, "")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (liquid.Renderer{}).RenderStep(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
