// A DRA driver of Kubernetes 1.30 for the tests: it registers with the kubelet, and reports the devices that a file describes, as
// JSON of k8s.io/api/resource/v1alpha2, whenever the file changes.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	resource "k8s.io/api/resource/v1alpha2"
	dra "k8s.io/kubelet/pkg/apis/dra/v1alpha3"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

var (
	name     = flag.String("name", "", "name of the driver")
	registry = flag.String("registration", "", "registration socket, in the kubelet's plugins_registry")
	endpoint = flag.String("endpoint", "", "socket of the driver's service")
	devices  = flag.String("devices", "", "file with a list of resource models")
)

type driver struct{}

func (driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.DRAPlugin,
		Name:              *name,
		Endpoint:          *endpoint,
		SupportedVersions: []string{"1.0.0"}, // As the helper of 1.30 does.
	}, nil
}

func (driver) NotifyRegistrationStatus(
	_ context.Context, outcome *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %v %s", outcome.PluginRegistered, outcome.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func (driver) NodePrepareResources(
	context.Context, *dra.NodePrepareResourcesRequest,
) (*dra.NodePrepareResourcesResponse, error) {
	return nil, status.Error(codes.Unimplemented, "not in this test")
}

func (driver) NodeUnprepareResources(
	context.Context, *dra.NodeUnprepareResourcesRequest,
) (*dra.NodeUnprepareResourcesResponse, error) {
	return nil, status.Error(codes.Unimplemented, "not in this test")
}

func (driver) NodeListAndWatchResources(
	_ *dra.NodeListAndWatchResourcesRequest, stream dra.Node_NodeListAndWatchResourcesServer,
) error {
	log.Print("the stream is open")
	var said []byte
	for {
		text, err := os.ReadFile(*devices)
		if err != nil {
			return err
		}
		if !bytes.Equal(text, said) {
			var models []*resource.ResourceModel
			if err := json.Unmarshal(text, &models); err != nil {
				return err
			}
			if err := stream.Send(&dra.NodeListAndWatchResourcesResponse{Resources: models}); err != nil {
				return err
			}
			said = text
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func listen(socket string) net.Listener {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		log.Fatal(err)
	}
	_ = os.Remove(socket) // Of a driver that was killed.
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

func main() {
	flag.Parse()
	service := grpc.NewServer()
	dra.RegisterNodeServer(service, driver{})
	listener := listen(*endpoint)
	go func() { log.Fatal(service.Serve(listener)) }()
	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, driver{})
	log.Fatal(registrar.Serve(listen(*registry)))
}
