// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudlogin

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/contract/upstream"
)

// registries are the hosts at which each cloud serves its registries. Everything below these domains
// is the cloud's own: customers choose a first label there, and never the server.
//
//   - AWS, with FIPS, dual-stack and China:
//     https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html
//   - Google: https://cloud.google.com/artifact-registry/docs/repositories/repo-locations
//   - Azure: https://learn.microsoft.com/azure/container-registry/container-registry-concepts
var registries = map[upstream.Cloud]*regexp.Regexp{
	upstream.CloudAWS: regexp.MustCompile(`^[0-9]{12}\.dkr(?:\.ecr(?:-fips)?\.([a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2})\.amazonaws\.com(?:\.cn)?|` +
		`-ecr\.([a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2})\.on\.aws)$`),
	upstream.CloudGCP:   regexp.MustCompile(`^(?:[a-z0-9-]+\.)?gcr\.io$|^[a-z0-9-]+\.pkg\.dev$`),
	upstream.CloudAzure: regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*\.azurecr\.(?:io|cn|us)$`),
}

// examples are such hosts, for messages.
var examples = map[upstream.Cloud]string{
	upstream.CloudAWS:   "123456789012.dkr.ecr.eu-central-1.amazonaws.com",
	upstream.CloudGCP:   "europe-docker.pkg.dev",
	upstream.CloudAzure: "team.azurecr.io",
}

// mayHave reports whether a registry may have a login of a cloud: it is one of the cloud's own, at
// the usual port, or its host:port is one that the operator listed, and it is reached over TLS.
func mayHave(cloud upstream.Cloud, registry *url.URL, listed map[string]bool) bool {
	if registry.Scheme != "https" || registry.User != nil {
		return false
	}
	pattern, isKnown := registries[cloud]
	if !isKnown {
		return false
	}
	isUsual := registry.Port() == "" || registry.Port() == "443"
	return isUsual && pattern.MatchString(strings.ToLower(registry.Hostname())) || listed[hostOf(registry)]
}

// hostOf returns host:port of a registry in one spelling.
func hostOf(registry *url.URL) string {
	port := registry.Port()
	if port == "" {
		port = "443"
	}
	return strings.ToLower(registry.Hostname()) + ":" + port
}

// regionOf returns the region of a registry of AWS; "" if its host does not name one.
func regionOf(registry *url.URL) string {
	found := registries[upstream.CloudAWS].FindStringSubmatch(strings.ToLower(registry.Hostname()))
	if found == nil {
		return ""
	}
	return found[1] + found[2] // one of the two is empty
}
