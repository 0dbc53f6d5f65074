// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package jsonnet_test

import (
	"testing"

	"github.com/leatdev/leat/render/jsonnet"
)

// BenchmarkDeployments makes 200 Deployments with a function of a library.
func BenchmarkDeployments(b *testing.B) {
	in := input(map[string]string{
		"main.jsonnet": `local k = import 'k.libsonnet'; {['web-%d' % i]: k.deployment('web-%d' % i, std.extVar('leat').config.TAG) for i in std.range(1, 200)}`,
		"lib/k.libsonnet": `{deployment(name, tag):: {
			apiVersion: 'apps/v1', kind: 'Deployment', metadata: {name: name, labels: {app: name}},
			spec: {replicas: 2, selector: {matchLabels: $.labels(name)}, template: {
				metadata: {labels: $.labels(name)},
				spec: {containers: [{name: 'app', image: 'registry.example/app:' + tag, args: ['serve', '--port=8080'],
					env: [{name: 'LEVEL', value: 'info'}], resources: {requests: {cpu: '10m', memory: '32Mi'}}}]},
			}},
		}, labels(name):: {app: name}}`,
	}, "", nil)
	b.ReportAllocs()
	for b.Loop() {
		got, err := jsonnet.Renderer{}.RenderStep(b.Context(), in)
		if err != nil || len(got.Documents) != 200 {
			b.Fatalf("%d documents, %v", len(got.Documents), err)
		}
	}
}
