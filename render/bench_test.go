// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"testing"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: object-%d
  namespace: bench
  labels: {app: x, team: bench}
spec:
  replicas: 2
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec:
      containers:
      - name: app
        image: registry.example/app:1.2.3
        args: [serve, --port=8080]
        ports: [{name: http, containerPort: 8080}]
        env: [{name: LEVEL, value: info}]
        resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 64Mi}}
        readinessProbe: {httpGet: {path: /readyz, port: http}}
        volumeMounts: [{name: config, mountPath: /etc/app}]
      volumes: [{name: config, configMap: {name: app}}]
`

// BenchmarkPlain reads 56 Deployments.
func BenchmarkPlain(b *testing.B) {
	content := map[string][]byte{}
	for i := range 56 {
		content[fmt.Sprintf("%02d.yaml", i)] = fmt.Appendf(nil, deployment, i)
	}
	files := render.NewFiles(content)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := inProcess().Objects(b.Context(), files, "", renderstep.Plain, nil); err != nil {
			b.Fatal(err)
		}
	}
}
