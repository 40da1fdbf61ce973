/* mpi_hello - an ordinary Open MPI program: a ring, an allreduce, and out.
 *   mpi_hello            prints "rank R of N: ring ok, sum S" on each rank
 *   mpi_hello abort R C  rank R calls MPI_Abort(C) while the others wait
 *   mpi_hello leave R    rank R ends without MPI_Finalize while the others wait */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ring(int rank, int n)
{
    int token = -1;

    if (n == 1)
        return 1;
    if (rank == 0)
        MPI_Send(&rank, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_INT, (rank + n - 1) % n, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    token += rank ? 1 : 0;
    if (rank)
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % n, 0, MPI_COMM_WORLD);
    return token == (rank ? rank : n - 1);
}

int main(int argc, char **argv)
{
    int rank, n, sum, good;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (argc > 3 && strcmp(argv[1], "abort") == 0 &&
        rank == (int)strtol(argv[2], 0, 10))
        MPI_Abort(MPI_COMM_WORLD, (int)strtol(argv[3], 0, 10));
    if (argc > 2 && strcmp(argv[1], "leave") == 0 &&
        rank == (int)strtol(argv[2], 0, 10))
        _Exit(0);
    good = ring(rank, n);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d: ring %s, sum %d\n", rank, n, good ? "ok" : "WRONG", sum);
    MPI_Finalize();
    return good && sum == n * (n - 1) / 2 ? 0 : 1;
}
