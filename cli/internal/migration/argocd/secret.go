// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"encoding/base64"
	"maps"
	"strings"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// secretData returns the data of a Secret, decoded, with those that were given as texts.
func secretData(o migration.Object) map[string]string {
	data := map[string]string{}
	for key, value := range o.Fields.Strings("data") {
		if text, err := base64.StdEncoding.DecodeString(value); err == nil {
			data[key] = string(text)
		}
	}
	for key, value := range o.Fields.Strings("stringData") {
		data[key] = value
	}
	return data
}

// secret makes a cluster or a repository of a Secret. Nothing else in it reaches a document or a note.
func secret(o migration.Object, f *fleet) migration.Entry {
	o.Fields.Skip("type", "immutable", "data", "stringData")
	data := secretData(o)
	switch kind := o.Labels[secretType]; kind {
	case "cluster":
		return cluster(o, data, f)
	case "repository", "repo":
		return repository(o, data, f)
	case "repo-creds", "repository-creds":
		o.Fields.Note("", migration.Refused, "set spec.credential in each repository whose URL begins with "+repositoryURL(data)+": credentials are not imported")
	default:
		o.Fields.Note("", migration.Refused, "the import does not know Secrets of the type "+kind)
	}
	return o.Finish()
}

// cluster makes a cluster of a Secret, with the labels by which ApplicationSets select.
func cluster(o migration.Object, data map[string]string, f *fleet) migration.Entry {
	server := strings.TrimRight(data["server"], "/")
	if server == inClusterURL {
		o.Fields.Note("", migration.Refused, "it is the cluster of Argo CD itself, which --cluster names; give it these labels at the hub, if an ApplicationSet selects by them")
		return o.Finish()
	}
	reference, isKnown := f.settings.ClusterOf(data["name"])
	if isMapped := f.settings.Clusters[server] != ""; isMapped {
		reference, isKnown = f.settings.Clusters[server], true
	}
	if !isKnown || strings.Contains(reference, "/") {
		o.Fields.Note("", migration.Refused, "its name is not one of a cluster at the hub; say which cluster it is with --map-cluster NAME=CLUSTER")
		return o.Finish()
	}
	metadata := &typev1.Metadata{Name: reference, Project: f.settings.Project, Labels: maps.Clone(o.Labels)}
	delete(metadata.GetLabels(), secretType)
	d := &fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: metadata}}}
	if !accepted(o.Fields, d) {
		return o.Finish()
	}
	f.clusters = append(f.clusters, d)
	o.Fields.Note("", migration.Check, "if the hub has the cluster already, join its labels by hand; otherwise enrol its agent: leat cluster token "+reference)
	return o.Finish(d)
}

// repositoryURL returns the URL of a Secret, without a credential.
func repositoryURL(data map[string]string) string {
	return migration.Line(migration.WithoutCredential(data["url"]))
}

// repository makes a repository of a Secret. Each chart of a registry is a repository, and the registry is not.
func repository(o migration.Object, data map[string]string, f *fleet) migration.Entry {
	address := data["url"]
	hasCredential := migration.HasCredential(address)
	for _, key := range []string{"password", "bearerToken", "sshPrivateKey", "tlsClientCertKey", "githubAppPrivateKey", "gcpServiceAccountKey"} {
		hasCredential = hasCredential || data[key] != ""
	}
	const advice = "set spec.credential: credentials are not imported"
	isRegistry := data["enableOCI"] == "true" || data["type"] == "oci"
	switch {
	case address == "":
		o.Fields.Note("", migration.Refused, "it has no URL")
		return o.Finish()
	case isRegistry && data["type"] != "oci":
		o.Fields.Note("", migration.Refused, "it is a registry; each chart that an Application takes from "+repositoryURL(data)+" becomes a repository, where you set spec.credential")
		return o.Finish()
	case hasCredential:
		o.Fields.Note("", migration.Check, advice)
	}
	if data["insecure"] == "true" || data["insecureIgnoreHostKey"] == "true" {
		o.Fields.Note("", migration.Differs, "Leat checks certificates and host keys; set spec.caPem, or the known hosts in spec.credential")
	}
	if data["proxy"] != "" {
		o.Fields.Note("", migration.Check, "set spec.proxyUrl: Argo CD reaches it through a proxy")
	}
	of := (*migration.Repositories).Git
	switch {
	case isRegistry:
		of = (*migration.Repositories).OCI
	case data["type"] == "helm":
		of = (*migration.Repositories).Helm
	}
	if !accepted(o.Fields, of(migration.NewRepositories(""), address)) {
		return o.Finish()
	}
	p := f.project(data["project"])
	d := of(p.repositories, address)
	if p.limits != nil && !p.limits.repositories.allows(d.GetRepository().GetSpec().GetUrl()) {
		o.Fields.Note("", migration.Refused, "its AppProject does not allow "+repositoryURL(data))
		return o.Finish()
	}
	p.used[d.GetRepository().GetMetadata().GetName()] = true
	return o.Finish(d)
}
