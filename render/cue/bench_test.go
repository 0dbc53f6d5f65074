// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cue_test

import (
	"testing"

	"github.com/leatdev/leat/render/cue"
)

// BenchmarkDeployments makes 200 Deployments of a definition.
func BenchmarkDeployments(b *testing.B) {
	in := input(map[string]string{"a.cue": `package a

import "list"

#Deployment: {
	apiVersion: "apps/v1"
	kind:       "Deployment"
	metadata: {name: string, labels: app: name}
	spec: {
		replicas: int | *2
		selector: matchLabels: app: metadata.name
		template: {
			metadata: labels: app: selector.matchLabels.app
			spec: containers: [{
				name:  "app"
				image: "registry.example/app:\(leat.config.TAG)"
				args: ["serve", "--port=8080"]
				env: [{name: "LEVEL", value: "info"}]
				resources: requests: {cpu: "10m", memory: "32Mi"}
			}]
		}
	}
}
objects: {for i in list.Range(0, 200, 1) {"web-\(i)": #Deployment & {metadata: name: "web-\(i)"}}}
`}, "", nil)
	b.ReportAllocs()
	for b.Loop() {
		got, err := cue.Renderer{}.RenderStep(b.Context(), in)
		if err != nil || len(got.Documents) != 200 {
			b.Fatalf("%d documents, %v", len(got.Documents), err)
		}
	}
}
