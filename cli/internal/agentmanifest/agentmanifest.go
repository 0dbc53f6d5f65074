// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package agentmanifest makes the manifest with which kubectl installs the agent of one cluster.
package agentmanifest

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// shipped is deploy/kubernetes/agent.yaml; make manifests copies it.
//
//go:embed agent.yaml
var shipped string

const (
	namespace    = "leat-system"
	joinSecret   = "leat-agent-join"
	caConfigMap  = "leat-agent-hub-ca"
	caFolder     = "/run/leat/hub-ca"
	dialledPort  = 8443
	separator    = "\n---\n"
	agentService = "leat-agent"
)

// Params hold the values that differ between clusters.
type Params struct {
	// JoinToken enrols the agent. Required.
	JoinToken string
	// HubURL is where the agent reaches the hub. Empty: the hub dials the agent.
	HubURL string
	// HubCA holds the certificates, in PEM, that the agent trusts instead of the system's. Empty: the
	// system's.
	HubCA []byte
	// HubKeys are the keys by which an agent that is dialled knows the hub.
	HubKeys []string
	// Image is the agent's image with its tag. Empty: the shipped manifest's.
	Image string
	// Release is the tag of the shipped manifest's image. Empty: as it is shipped.
	Release string
}

// Render returns the manifest: the shipped one, with the settings and the Secret of this cluster.
func Render(p Params) (string, error) {
	_, body, found := strings.Cut(shipped, "\napiVersion:") // what comes before tells people to edit the file
	if !found {
		return "", errors.New("the shipped manifest has no objects")
	}
	documents := strings.Split("apiVersion:"+strings.TrimRight(body, "\n"), separator)
	at := slices.IndexFunc(documents, func(d string) bool { return strings.Contains(d, "\nkind: Deployment\n") })
	if at < 0 {
		return "", errors.New("the shipped manifest has no Deployment")
	}
	deployment, err := configured(documents[at], p)
	if err != nil {
		return "", err
	}
	added := []map[string]any{object("Secret", joinSecret, "stringData", map[string]any{"token": p.JoinToken})}
	if len(p.HubCA) > 0 {
		added = append(added, object("ConfigMap", caConfigMap, "data", map[string]any{"ca.crt": string(p.HubCA)}))
	}
	if p.HubURL == "" {
		added = append(added, object("Service", agentService, "spec", map[string]any{
			"type": "LoadBalancer", "selector": map[string]any{"app.kubernetes.io/name": agentService},
			"ports": []any{map[string]any{"name": "tunnel", "port": dialledPort, "targetPort": dialledPort}},
		}), object("NetworkPolicy", agentService+"-tunnel", "spec", map[string]any{
			"podSelector": map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": agentService}},
			"policyTypes": []any{"Ingress"}, "ingress": []any{map[string]any{"ports": []any{map[string]any{"port": dialledPort}}}},
		}))
	}
	var texts []string
	for _, o := range added {
		text, err := yaml.Marshal(o)
		if err != nil {
			return "", fmt.Errorf("print %s: %w", o["kind"], err)
		}
		texts = append(texts, strings.TrimRight(string(text), "\n"))
	}
	documents[at] = deployment
	return strings.Join(slices.Insert(documents, at, texts...), separator) + "\n", nil
}

// object returns an object in the agent's namespace with one field.
func object(kind, name, field string, value any) map[string]any {
	version := "v1"
	if kind == "NetworkPolicy" {
		version = "networking.k8s.io/v1"
	}
	return map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace}, field: value,
	}
}

// configured returns the Deployment with the settings of a cluster.
func configured(document string, p Params) (string, error) {
	var deployment map[string]any
	if err := yaml.Unmarshal([]byte(document), &deployment); err != nil {
		return "", fmt.Errorf("read the shipped Deployment: %w", err)
	}
	spec, _ := field(deployment, "spec", "template", "spec").(map[string]any)
	containers, _ := spec["containers"].([]any)
	if len(containers) != 1 {
		return "", fmt.Errorf("the shipped Deployment has %d containers, want one", len(containers))
	}
	container, _ := containers[0].(map[string]any)
	image, _ := container["image"].(string)
	switch {
	case p.Image != "":
		container["image"] = p.Image
	case p.Release != "":
		container["image"] = image[:strings.LastIndex(image, ":")+1] + p.Release
	}
	variables, _ := container["env"].([]any)
	variables = slices.DeleteFunc(variables, func(v any) bool { return field(v, "name") == "LEAT_AGENT_HUB_URL" })
	set := func(name, value string) { variables = append(variables, map[string]any{"name": name, "value": value}) }
	if p.HubURL != "" {
		set("LEAT_AGENT_HUB_URL", p.HubURL)
	} else {
		set("LEAT_AGENT_LISTEN_TUNNEL_ADDR", fmt.Sprintf(":%d", dialledPort))
		set("LEAT_AGENT_HUB_KEYS", strings.Join(p.HubKeys, ","))
	}
	if len(p.HubCA) > 0 {
		set("LEAT_AGENT_HUB_CA_FILE", caFolder+"/ca.crt")
		mounts, _ := container["volumeMounts"].([]any)
		container["volumeMounts"] = append(mounts, map[string]any{"name": "hub-ca", "mountPath": caFolder, "readOnly": true})
		volumes, _ := spec["volumes"].([]any)
		spec["volumes"] = append(volumes, map[string]any{"name": "hub-ca", "configMap": map[string]any{"name": caConfigMap}})
	}
	container["env"] = variables
	text, err := yaml.Marshal(deployment)
	if err != nil {
		return "", fmt.Errorf("print the Deployment: %w", err)
	}
	return strings.TrimRight(string(text), "\n"), nil
}

// field returns the value at a path of maps, and nil if there is none.
func field(in any, path ...string) any {
	for _, name := range path {
		m, ok := in.(map[string]any)
		if !ok {
			return nil
		}
		in = m[name]
	}
	return in
}
